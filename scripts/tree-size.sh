#!/usr/bin/env bash
# Prints the size of the tree at each COMMIT (default: HEAD): lines of code by language, without blank
# lines and lines that only comment, and packages of Cargo.lock: tree-size.sh [COMMIT...]
set -euo pipefail
cd "$(dirname "$0")/.."

# code COMMIT PATTERN...: lines of code of the files that match.
code() {
    local commit=$1
    shift
    git ls-tree -r --name-only "$commit" | grep -E "$1" | grep -vE '(^|/)(golden|data|ns3)/' |
        while IFS= read -r file; do git show "$commit:$file"; done |
        grep -cvE '^[[:space:]]*(//.*|/\*.*|\*.*|#[^!\[].*|#)?$' || true
}

echo "| Commit | Rust | Rust, tests | BPF | TypeScript | Java | Python, shell | packages in Cargo.lock | in several versions |"
echo "|---|---|---|---|---|---|---|---|---|"
for commit in "${@:-HEAD}"; do
    names=$(git show "$commit:Cargo.lock" | sed -n 's/^name = //p')
    echo "| $(git rev-parse --short "$commit") | $(code "$commit" '^(crates|fuzz)/.*\.rs$') \
| $(code "$commit" '/(tests|benches|examples)(/.*)?\.rs$|_tests\.rs$|/tests\.rs$') \
| $(code "$commit" '^crates/.*\.[ch]$') | $(code "$commit" '\.(ts|mjs)$') | $(code "$commit" '\.java$') \
| $(code "$commit" '\.(py|sh)$') | $(wc -l <<< "$names") | $(sort <<< "$names" | uniq -d | wc -l) |"
done
