#!/usr/bin/env bash
# Creates a Python environment with pandas, Polars and DuckDB in target/python, for the test that
# recordings can be opened without our code.
set -euo pipefail
cd "$(dirname "$0")/.."
wanted=tests/recordings/requirements-test.txt
if cmp -s "$wanted" target/python/installed.txt; then exit; fi
echo "python: installing $(paste -sd' ' <(grep -v '^#' $wanted)) into target/python (600 MB on disk)" >&2
python3 -m venv --clear target/python
target/python/bin/pip install --quiet --disable-pip-version-check -r "$wanted"
cp "$wanted" target/python/installed.txt
