#!/usr/bin/env bash
# Compares the answers of two builds of yuzuri-identify for the same files, to the last digit: for a
# change that must not change answers.
#   scripts/same-answers.sh BEFORE AFTER FILE_OR_FOLDER...
# Prints the names of the files with different answers; exits with 1 if there are any.
set -euo pipefail
if (($# < 3)); then
    sed -n '2,5s/^# //p' "$0" >&2
    exit 2
fi
before=$1 after=$2
shift 2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
files=0 different=0
while IFS= read -r -d '' file; do
    # Unreadable files must give the same error.
    "$before" --all --all-rounds --json "$file" >"$folder/before" 2>&1 || echo "exit $?" >>"$folder/before"
    "$after" --all --all-rounds --json "$file" >"$folder/after" 2>&1 || echo "exit $?" >>"$folder/after"
    files=$((files + 1))
    if ! cmp --silent "$folder/before" "$folder/after"; then
        different=$((different + 1))
        echo "$file"
    fi
done < <(find "$@" -type f -print0 | sort -z)
echo "$different of $files files have different answers"
((different == 0))
