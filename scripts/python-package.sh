#!/usr/bin/env bash
# Builds the wheel of the Python package, installs it into a virtual environment in target/, and
# runs its checks, tests and example: python-package.sh [PROFILE]. PROFILE is Cargo's: dev (default)
# builds fast, release is for distribution.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/path.sh
profile=${1:-dev}
wanted=python/tests/requirements.txt
CARGO_TARGET_DIR=$(realpath -m "${CARGO_TARGET_DIR:-target}")
export CARGO_TARGET_DIR
place=$CARGO_TARGET_DIR/python-package
if ! cmp -s "$wanted" "$place/installed.txt"; then
    echo "python-package: installing $(paste -sd' ' <(grep -v '^#' $wanted)) into $place (400 MB on disk)" >&2
    python3 -m venv --clear "$place"
    "$place/bin/pip" install --quiet --disable-pip-version-check -r "$wanted"
    cp "$wanted" "$place/installed.txt"
fi
export PATH="$place/bin:$PATH" MYPY_CACHE_DIR="$place/mypy" PYTHONDONTWRITEBYTECODE=1

# Use what the workspace's tests have built. In release nothing is built yet: build only what the
# package needs.
if [ "$profile" = dev ]; then
    YUZURI_CARGO=$(command -v cargo) CARGO=$PWD/scripts/maturin-cargo.sh
    export YUZURI_CARGO CARGO
fi
cd python
rm -rf "$place/wheels"
maturin build --quiet --locked --profile "$profile" --interpreter python3 --out "$place/wheels"
pip install --quiet --disable-pip-version-check --force-reinstall --no-deps "$place"/wheels/*.whl
du -h --apparent-size "$place"/wheels/*.whl

# Check the package's types, and that the stubs match the compiled module.
mypy
(cd "$place" && stubtest yuzuri._native) # stubtest writes a cache to its working directory
pytest -q -p no:cacheprovider
