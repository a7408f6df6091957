#!/usr/bin/env bash
# Builds the wheel of the Python package, installs it into a Python of its own in target/, and runs its checks, tests and example:
# python-package.sh [PROFILE]. The profile is Cargo's: dev (the default) builds fast, release is what is given away.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/path.sh
profile=${1:-dev}
wanted=python/tests/requirements.txt
place=$(realpath -m "${CARGO_TARGET_DIR:-target}")/python-package
if ! cmp -s "$wanted" "$place/installed.txt"; then
    echo "python-package: installing $(paste -sd' ' <(grep -v '^#' $wanted)) into $place (400 MB on disk)" >&2
    python3 -m venv --clear "$place"
    "$place/bin/pip" install --quiet --disable-pip-version-check -r "$wanted"
    cp "$wanted" "$place/installed.txt"
fi
export PATH="$place/bin:$PATH"

cd python
rm -rf "$place/wheels"
maturin build --quiet --locked --profile "$profile" --interpreter python3 --out "$place/wheels"
pip install --quiet --disable-pip-version-check --force-reinstall --no-deps "$place"/wheels/*.whl
ls -l "$place"/wheels/*.whl | awk '{ printf "python-package: %s, %.1f MB\n", $NF, $5 / 1e6 }'

# The types of the package, and whether the stubs say of the compiled part what is there.
mypy --cache-dir "$place/mypy"
stubtest yuzuri._native
pytest -q -p no:cacheprovider
