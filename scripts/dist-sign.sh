#!/usr/bin/env bash
# Signs a folder or verifies its signature: dist-sign.sh sign|verify FOLDER. Needs OpenSSH 8.0 or
# later, nothing else.
#
# `sign` writes SHA256SUMS over all files, SHA256SUMS.sig, and allowed_signers with the public key.
# DIST_SIGNING_KEY names the private key (or the public key of one that ssh-agent holds). Without
# it, a key is generated, used once and discarded. `verify` checks the signature first and then each
# file. ALLOWED_SIGNERS names a file of trusted keys. Without it, the one in the folder is used,
# which proves only that all files are from one build. See docs/packaging.md.
set -euo pipefail
SIGNER=yuzuri-dist

say() { printf 'dist-sign: %s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }
usage() { say "usage: dist-sign.sh sign|verify FOLDER"; exit 2; }
[ $# = 2 ] || usage
folder=$2
[ -d "$folder" ] || fail "$folder is not a folder"
files() { (cd "$folder" && find . -type f ! -name SHA256SUMS ! -name SHA256SUMS.sig ! -name allowed_signers -printf '%P\n' | LC_ALL=C sort); }

sign() {
    local key=${DIST_SIGNING_KEY:-} public
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    if [ -z "$key" ]; then
        key=$work/key
        ssh-keygen -q -t ed25519 -N '' -C 'made for one build' -f "$key"
    fi
    [ -r "$key" ] || fail "DIST_SIGNING_KEY: $key cannot be read"
    public=$(ssh-keygen -y -f "$key" 2>/dev/null || cat "${key%.pub}.pub") || fail "$key: not an OpenSSH private key, and its public key is not next to it"
    # Two fields: key type and key. A comment may contain anything.
    printf '%s namespaces="%s" %s\n' "$SIGNER" "$SIGNER" "$(cut -d' ' -f1,2 <<<"$public")" >"$folder/allowed_signers"
    rm -f "$folder/SHA256SUMS.sig"
    files >"$work/files"
    (cd "$folder" && xargs -d '\n' sha256sum -- <"$work/files" >SHA256SUMS)
    ssh-keygen -q -Y sign -f "$key" -n "$SIGNER" "$folder/SHA256SUMS" 2>"$work/said" || fail "signing with $key: $(cat "$work/said")"
    cut -d' ' -f3,4 "$folder/allowed_signers" >"$work/public"
    say "signed by $(ssh-keygen -l -f "$work/public" | cut -d' ' -f2,4)${DIST_SIGNING_KEY:+ (DIST_SIGNING_KEY)}"
    [ -n "${DIST_SIGNING_KEY:-}" ] || say "the key was created for this build and is discarded: it authenticates nobody"
}

verify() {
    local signers=${ALLOWED_SIGNERS:-$folder/allowed_signers} listed
    [ -r "$signers" ] || fail "$signers: no list of keys"
    [ -r "$folder/SHA256SUMS" ] && [ -r "$folder/SHA256SUMS.sig" ] || fail "$folder has no SHA256SUMS with SHA256SUMS.sig"
    ssh-keygen -Y verify -f "$signers" -I "$SIGNER" -n "$SIGNER" -s "$folder/SHA256SUMS.sig" <"$folder/SHA256SUMS" >/dev/null 2>&1 ||
        fail "FAILED: SHA256SUMS is not signed by a key of $signers"
    (cd "$folder" && sha256sum --quiet --strict -c SHA256SUMS >&2) || fail "FAILED: files differ from the signed ones"
    # An unsigned file must not pass as signed.
    listed=$(sed 's/^[0-9a-f]* [ *]//' "$folder/SHA256SUMS" | LC_ALL=C sort)
    [ "$listed" = "$(files)" ] || fail "FAILED: files that are not in SHA256SUMS: $(comm -13 <(printf '%s\n' "$listed") <(files) | paste -sd' ')"
    [ -n "${ALLOWED_SIGNERS:-}" ] || say "the key is from the folder itself: it proves only that all files are from one build"
    say "all files are unchanged since they were signed"
}

case $1 in
sign) sign ;;
verify) verify ;;
*) usage ;;
esac
