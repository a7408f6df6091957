#!/usr/bin/env bash
# Runs every test that attacks the programs and prints a table with what was tried, how often, and
# what was lost: make attacks. A test takes part by calling `yuzuri_testnet::attack` at its end;
# nothing else is needed. WRITE=1 writes the table to docs/attacks.md. Needs root for namespaces and
# the kernel; tests that cannot run say so.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh test
. scripts/path.sh
log=target/attacks.log
mkdir -p target
: >"$log"
# Finds the test programs of each package: crates/PACKAGE/tests/NAME.rs and
# crates/PACKAGE/tests/NAME/*.rs belong to the test program NAME, crates/PACKAGE/src to the
# library's own tests, named "lib".
mapfile -t found < <(grep -rlE '\battack\(' --include='*.rs' crates/*/tests crates/*/src | grep -v '^crates/yuzuri-testnet/' |
    sed -nE 's#^crates/([^/]+)/tests/([^/.]+)(\.rs|/.*)$#\1 \2#p; s#^crates/([^/]+)/src/.*#\1 lib#p' | sort -u)
# Build for the whole workspace, whose dependencies are already built; those of a single package
# have other features. Several packages may have test programs with the same name; cargo's messages
# say which package each belongs to.
words=()
while read -r target; do
    if [ "$target" = lib ]; then words+=(--lib); else words+=(--test "$target"); fi
done < <(printf '%s\n' "${found[@]}" | cut -d ' ' -f 2 | sort -u)
echo "attacks: building ${#found[@]} test programs" >&2
cargo test --workspace --locked --quiet --no-run --message-format=json-render-diagnostics "${words[@]}" >target/attacks.json
failed=()
for each in "${found[@]}"; do
    read -r package target <<<"$each"
    if [ "$target" = lib ]; then kind=lib name=${package//-/_}; else kind=test name=$target; fi
    program=$(sed -nE 's#.*"manifest_path":"[^"]*/crates/'"$package"'/Cargo\.toml".*"kind":\["'"$kind"'"\].*"name":"'"$name"'".*"test":true\}.*"executable":"([^"]+)".*#\1#p' target/attacks.json)
    echo "attacks: $each" >&2
    echo "package: $package" >>"$log"
    status=0
    # Run it in the package's folder, as cargo does.
    if [ -n "$program" ]; then
        (cd "crates/$package" && "$program" --nocapture 2>&1) | tee -a "$log" | { grep -aE '(skipped:|FAILED|panicked at)' >&2 || true; } || status=$?
    else
        echo "attacks: cargo built no such test program" >&2
        status=1
    fi
    [ $status = 0 ] || failed+=("$each")
done
table() {
    echo "| attack | tried | lost | by the tests of |"
    echo "|---|---|---|---|"
    # Keep the names in the order in which they came; each case of a property test is one line.
    awk '
        /^package: / { package = $2; next }
        match($0, /attack: .+ \| [0-9]+ .* \| /) {
            split(substr($0, RSTART + 8), part, / \| /)
            count = part[2]; sub(/ .*/, "", count)
            of = part[2]; sub(/^[0-9]+ /, "", of)
            key = part[1] SUBSEP of SUBSEP part[3] SUBSEP package
            if (!(key in sum)) order[++last] = key
            sum[key] += count
        }
        function thousands(n, out) { for (out = ""; length(n) > 3; n = substr(n, 1, length(n) - 3)) out = "," substr(n, length(n) - 2) out; return n out }
        END { for (i = 1; i <= last; i++) { split(order[i], k, SUBSEP); printf "| %s | %s %s | %s | %s |\n", k[1], thousands(sum[order[i]] ""), k[2], k[3], k[4] } }' "$log"
}
table
echo >&2
if [ ${#failed[@]} != 0 ]; then
    printf 'attacks: FAILED: %s\n' "${failed[@]}" >&2
    exit 1
fi
if [ -n "${WRITE:-}" ]; then
    table >target/attacks.md
    awk -v table=target/attacks.md '/^<!-- attacks: begin -->/ { print; while ((getline line < table) > 0) print line; skip = 1 }
        /^<!-- attacks: end -->/ { skip = 0 } !skip || /begin -->/ { if (!/begin -->/) print }' docs/attacks.md >target/attacks.new
    mv target/attacks.new docs/attacks.md
    echo "attacks: docs/attacks.md is written" >&2
fi
