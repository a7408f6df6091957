#!/usr/bin/env bash
# Builds the release into dist/: static programs for x86_64 and aarch64, Debian packages for amd64
# and arm64, the licence list, the software bill of materials (SBOM), and signed checksums.
# DIST_ARCHITECTURES="x86_64" builds a part. DIST_SIGNING_KEY=FILE signs with that OpenSSH key
# instead of one generated for the build. docs/packaging.md describes the contents.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/path.sh
. scripts/cross.sh

say() { printf 'dist: %s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }
step() { say "=== $* ($SECONDS s)"; }
size() { stat -c %s "$1" | awk '{ printf "%.2f MB", $1 / 1e6 }'; }

read -r -a archs <<<"${DIST_ARCHITECTURES:-x86_64 aarch64}"
programs=(yuzuri yuzuri-identify)
# The limit stated in docs/evaluation.md.
max_bytes=10000000

scripts/setup.sh dist
# Before the long build, check the licences, sources and known vulnerabilities of all dependencies.
scripts/deny.sh
out=$PWD/dist
base=$(realpath -m "${CARGO_TARGET_DIR:-target}")
work=$base/dist
version=$(cargo metadata --no-deps --locked --format-version 1 |
    python3 -c 'import json, sys; print(next(p["version"] for p in json.load(sys.stdin)["packages"] if p["name"] == "yuzuri"))')
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null) || fail "the date of a release is that of its commit: run this in a git checkout"
export SOURCE_DATE_EPOCH TZ=UTC LC_ALL=C.UTF-8
umask 022
rm -rf "$out" "$work"
mkdir -p "$out" "$work"
if [ -n "$(git status --porcelain)" ]; then say "not as committed: $(git status --porcelain | wc -l) files are changed or new"; fi

# --- programs ---

roots=()
for arch in "${archs[@]}"; do
    step "programs for $arch"
    mkdir "$out/$arch"
    scripts/static-build.sh "$arch" "${programs[@]}" >"$work/built-$arch"
    while read -r file; do install -m 755 "$file" "$out/$arch/"; done <"$work/built-$arch"
    for program in "${programs[@]}"; do
        file=$out/$arch/$program
        # A build must not contain paths of this machine.
        found=$(strings -a "$file" | grep -F -e "$HOME/" -e "$PWD/" -e "$base/" || true)
        [ -z "$found" ] || fail "$file contains paths of this machine: $(head -n 3 <<<"$found" | cut -c 1-200)"
        say "$arch $program: $(size "$file")"
    done
    [ "$(stat -c %s "$out/$arch/yuzuri")" -le $max_bytes ] || fail "yuzuri for $arch is larger than $max_bytes bytes"
    roots+=("$(scripts/static-build.sh --libraries "$arch")")
done

# --- manual pages and completions ---

step "manual pages and completions"
native=$out/$(uname -m)
[ -d "$native" ] || fail "manual pages and completions come from the programs themselves: build for $(uname -m), too"
"$native/yuzuri" man --folder "$work/manual/man"
"$native/yuzuri-identify" --man >"$work/manual/man/yuzuri-identify.1"
mkdir -p "$work"/manual/completions/{bash,zsh,fish}
"$native/yuzuri" completions bash >"$work/manual/completions/bash/yuzuri"
"$native/yuzuri" completions zsh >"$work/manual/completions/zsh/_yuzuri"
"$native/yuzuri" completions fish >"$work/manual/completions/fish/yuzuri.fish"
"$native/yuzuri-identify" --completions bash >"$work/manual/completions/bash/yuzuri-identify"
"$native/yuzuri-identify" --completions zsh >"$work/manual/completions/zsh/_yuzuri-identify"
"$native/yuzuri-identify" --completions fish >"$work/manual/completions/fish/yuzuri-identify.fish"
say "$(find "$work/manual/man" -type f | wc -l) pages"

# --- licences ---

step "licences"
documents=()
for root in "${roots[@]}"; do documents+=(--documents "$root/usr/share/doc"); done
scripts/licences.py "${documents[@]}" "$out/licences.txt"
say "licences.txt: $(size "$out/licences.txt")"

# --- components ---

# Debian source packages that are linked into the static programs, as Debian's policy requires
# (Built-Using): the C library and the compiler's runtime are this machine's, libelf and zlib those
# of packages.lock.
built_using() {
    local arch=$1 debian=$2 library
    if [ "$arch" = "$(uname -m)" ]; then library=libc6-dev; else library=libc6-dev-$debian-cross; fi
    {
        # shellcheck disable=SC2016
        dpkg-query -W -f '${source:Package} (= ${source:Version})\n' $library "libgcc-$(gcc -dumpversion)-dev"
        awk -v set="cross-$debian" '$1 == set && $2 == "libelf-dev" { print "elfutils (= " $3 ")" }
            $1 == set && $2 == "zlib1g-dev" { print "zlib (= " $3 ")" }' crates/yuzuri-vm/packages.lock
    } | sort -u | paste -sd, | sed 's/,/, /g'
}

step "components"
components=()
for arch in "${archs[@]}"; do
    debian=$(debian_name "$arch")
    components+=(--target "$(rust_target "$debian")" --built-using "$(built_using "$arch" "$debian")")
done
scripts/sbom.py "${components[@]}" "$out/sbom.cdx.json"
say "sbom.cdx.json: $(size "$out/sbom.cdx.json")"

# --- packages ---

package() {
    local arch=$1 debian=$2 stage=$work/package-$2 file
    mkdir -p "$stage/docs"
    cp -r packaging/debian "$stage/debian"
    cp packaging/systemd/yuzuri-share.service "$stage/debian/yuzuri.yuzuri-share.service"
    cp packaging/systemd/yuzuri-ap.service "$stage/debian/yuzuri.yuzuri-ap.service"
    cp packaging/share.toml packaging/ap.toml "$out/licences.txt" "$stage/"
    cp -r "$work/manual/man" "$work/manual/completions" "$stage/"
    mkdir "$stage/bin" "$stage/sysusers"
    cp packaging/systemd/yuzuri.sysusers "$stage/sysusers/yuzuri.conf"
    # The root folder of the service (RootDirectory= in the unit): mount points only.
    mkdir -p "$stage"/root/{dev,etc/yuzuri,proc,run,sys,tmp,usr/bin,var/lib/yuzuri,var/tmp}
    : >"$stage/root/usr/bin/yuzuri"
    for program in "${programs[@]}"; do cp "$out/$arch/$program" "$stage/bin/"; done
    for file in access-point commands control group identify limits monitor packaging recording-format share sharing; do cp "docs/$file.md" "$stage/docs/"; done
    cp SECURITY.md "$stage/docs/"
    cp CHANGELOG.md "$stage/"
    cat >"$stage/debian/changelog" <<END
yuzuri ($version) unstable; urgency=medium

  * What is new: CHANGELOG.md beside this file (changelog.gz).

 -- $(sed -n 's/^Maintainer: //p' packaging/debian/control)  $(date -R -d "@$SOURCE_DATE_EPOCH")
END
    STATIC_BUILT_USING=$(built_using "$arch" "$debian")
    export STATIC_BUILT_USING
    (cd "$stage" && dpkg-architecture "-a$debian" -f -c debian/rules binary) >"$work/package-$debian.log" 2>&1 ||
        { tail -n 20 "$work/package-$debian.log" >&2; fail "making the package for $debian failed"; }
    mv "$work"/yuzuri_*_"$debian".deb "$out/"
}
for arch in "${archs[@]}"; do
    # Routers with armv7 run OpenWrt, whose recipe (packaging/openwrt) packages the program itself.
    [ "$arch" != armv7 ] || continue
    debian=$(debian_name "$arch")
    step "package for $debian"
    package "$arch" "$debian"
    file=$out/yuzuri_${version}_$debian.deb
    say "$(basename "$file"): $(size "$file")"
    lintian --no-cfg --allow-root --fail-on error "$file" >&2 || fail "lintian finds errors in $file (above)"
done

scripts/dist-sign.sh sign "$out"
scripts/dist-sign.sh verify "$out"
step "dist/ is made"
(cd "$out" && sed 's/^/dist: /' SHA256SUMS >&2)
