#!/usr/bin/env bash
# Tests scripts/dist-sign.sh: a signed folder verifies; a changed byte, an additional or missing
# file, other checksums or another signature do not.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v ssh-keygen >/dev/null || { echo "dist-sign-test: skipped: ssh-keygen is not installed (openssh-client)"; exit 0; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "dist-sign-test: FAILED: $*" >&2; exit 1; }
count=0
# holds|breaks WHAT: checks that the folder verifies, or that it does not.
holds() { count=$((count + 1)); scripts/dist-sign.sh verify "$work/dist" 2>"$work/said" || fail "$1: $(cat "$work/said")"; }
breaks() { count=$((count + 1)); ! scripts/dist-sign.sh verify "$work/dist" >"$work/said" 2>&1 || fail "$1, and it verifies"; grep -q FAILED "$work/said" || fail "$1: $(cat "$work/said")"; }
fresh() {
    rm -rf "$work/dist"
    mkdir -p "$work/dist/x86_64"
    head -c 100000 /dev/urandom >"$work/dist/x86_64/yuzuri"
    printf 'words\n' >"$work/dist/licences.txt"
    printf 'words\n' >"$work/dist/a name with blanks"
    scripts/dist-sign.sh sign "$work/dist" 2>/dev/null
}

fresh
holds "as it was signed"
for at in 0 49999 99999; do
    fresh
    before=$(od -An -tu1 -j $at -N 1 "$work/dist/x86_64/yuzuri")
    # shellcheck disable=SC2059
    printf "\\x$(printf %02x $((before ^ 1)))" | dd of="$work/dist/x86_64/yuzuri" bs=1 seek=$at conv=notrunc status=none
    breaks "a bit of byte $at is changed"
done
fresh && : >"$work/dist/more" && breaks "a file is there that nobody signed"
fresh && rm "$work/dist/licences.txt" && breaks "a file is gone"
fresh && (cd "$work/dist" && printf 'other\n' >licences.txt && sha256sum licences.txt x86_64/yuzuri "a name with blanks" >SHA256SUMS) &&
    breaks "a file and its sum are changed"
fresh && cp "$work/dist/SHA256SUMS.sig" "$work/old.sig" && fresh && cp "$work/old.sig" "$work/dist/SHA256SUMS.sig" &&
    breaks "the signature is another build's"

# With a given key: a user who trusts it rejects another key, even if the folder contains that key.
ssh-keygen -q -t ed25519 -N '' -f "$work/key"
rm -rf "$work/dist" && mkdir "$work/dist" && printf 'words\n' >"$work/dist/file"
DIST_SIGNING_KEY=$work/key scripts/dist-sign.sh sign "$work/dist" 2>/dev/null
cp "$work/dist/allowed_signers" "$work/trusted"
ALLOWED_SIGNERS=$work/trusted holds "the given key, trusted beforehand"
scripts/dist-sign.sh sign "$work/dist" 2>/dev/null
holds "signed anew with a key of its own, by the folder's own word"
ALLOWED_SIGNERS=$work/trusted breaks "signed anew by somebody else"
DIST_SIGNING_KEY=$work/nowhere scripts/dist-sign.sh sign "$work/dist" 2>/dev/null && fail "a key that is not there signs"
find "$work/dist" -type f -exec grep -l 'PRIVATE KEY' {} + && fail "the private key is among the files"
echo "dist-sign-test: $count cases hold"
