#!/usr/bin/env bash
# Tests the output of `make dist`: each package of dist/ is installed in a clean Debian 12, tried,
# upgraded, removed and purged, after which nothing may be left. Its service runs under a real
# systemd, and the packaged program must work under Debian's kernels in QEMU and leave nothing
# behind (DIST_KERNELS, default: 6.1-amd64 6.1-arm64; empty: no guests). As root.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/path.sh

say() { printf 'dist-test: %s\n' "$*" >&2; }
fail() { say "FAILED: $*"; exit 1; }
[ "$(id -u)" = 0 ] || fail "it makes a root and mounts: run it as root"
base=$(realpath -m "${CARGO_TARGET_DIR:-target}")
kernels=${DIST_KERNELS-6.1-amd64 6.1-arm64}

# --- outside: a folder, mounts and processes in separate namespaces, and their removal in every
# case ---

if [ -z "${DIST_TEST_FOLDER:-}" ]; then
    scripts/setup.sh dist
    compgen -G 'dist/*.deb' >/dev/null || fail "no packages in dist/: make dist"
    scripts/dist-sign-test.sh
    scripts/dist-sign.sh verify dist || fail "dist/ was changed after it was built: make dist"
    DIST_TEST_FOLDER=$(mktemp -d)
    export DIST_TEST_FOLDER
    worker=
    # shellcheck disable=SC2317
    cleanup() {
        trap - EXIT
        trap '' INT TERM HUP
        # When the first process of a PID namespace ends, so do all others; the mounts disappear
        # with the last one.
        [ -z "$worker" ] || kill -TERM "$worker" 2>/dev/null || true
        wait
        rm -rf --one-file-system "$DIST_TEST_FOLDER"
    }
    trap cleanup EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
    unshare --mount --propagation private --pid --fork --kill-child "$0" "$@" </dev/null &
    worker=$!
    status=0
    wait $worker || status=$?
    worker=
    [ $status = 0 ] || exit $status

    # --- the service, under a real systemd on this machine's kernel ---

    root=$DIST_TEST_FOLDER/root
    package=$(compgen -G "dist/yuzuri_*_$(dpkg --print-architecture).deb") || package=
    if [ -n "$package" ]; then
        cp "$package" "$root/package.deb"
        cp scripts/dist-service.sh "$root/service.sh"
        cat >"$root/etc/systemd/system/service-test.service" <<'END'
[Unit]
After=multi-user.target
[Service]
Type=oneshot
ExecStart=/bin/sh -c '/service.sh >/service.log 2>&1; systemctl poweroff'
[Install]
WantedBy=multi-user.target
END
        chroot "$root" systemctl --quiet enable service-test.service
        timeout --foreground -k 10 600 systemd-nspawn --quiet --directory "$root" --register=no --keep-unit --private-network --boot \
            --capability=all --system-call-filter="bpf perf_event_open" </dev/null >"$DIST_TEST_FOLDER/container" 2>&1 &
        worker=$!
        wait $worker || true
        worker=
        verdict=$(cat "$root/service.verdict" 2>/dev/null || echo "FAILED: the container did not finish")
        say "the service under systemd: $verdict"
        case "$verdict" in FAILED*)
            tail -n 30 "$root/service.log" "$DIST_TEST_FOLDER/container" >&2 || true
            exit 1
            ;;
        esac
    else
        say "the service under systemd: skipped: dist/ has no package for this machine"
    fi

    # --- under Debian's kernels ---

    # shellcheck disable=SC2086
    set -- $kernels
    [ $# != 0 ] || { say "guests: skipped: DIST_KERNELS is empty"; exit 0; }
    vm() { cargo run --quiet --locked --target-dir "$base/static/vm" -p yuzuri-vm -- "$@"; }
    vm build "$@"
    words=()
    for package in dist/*.deb; do
        debian=$(dpkg-deb -f "$package" Architecture)
        case " $* " in *"-$debian "*) ;; *) continue ;; esac
        folder=$DIST_TEST_FOLDER/guest-$debian
        mkdir -p "$folder/programs"
        dpkg-deb -x "$package" "$folder/unpacked"
        mv "$folder/unpacked/usr/bin" "$folder/programs/bin"
        cp scripts/kernels/package "$folder/programs/"
        words+=(--programs "$debian=$folder/programs")
    done
    vm test "${words[@]}" "${@/#/--kernel=}" --logs "$base/dist-test"
    say "all passed"
    exit
fi

# --- inside: a clean Debian 12 ---

work=$DIST_TEST_FOLDER root=$DIST_TEST_FOLDER/root
version=
for package in dist/*.deb; do version=$(dpkg-deb -f "$package" Version); done
[ -n "$version" ]
say "making a clean Debian 12"
# Use the mirror of this machine's apt if it is a Debian mirror.
# shellcheck disable=SC2016
mirror=$(apt-get indextargets --format '$(LABEL)|$(REPO_URI)' 'Created-By: Packages' 2>/dev/null | sed -n 's/^Debian|//p' | head -n 1)
mkdir -p "$root" "$base/dist-test/debootstrap"
mount --bind "$root" "$root"
debootstrap --variant=minbase --include=man-db,systemd-sysv,dbus,iproute2 --cache-dir="$base/dist-test/debootstrap" \
    --keyring=/usr/share/keyrings/debian-archive-keyring.gpg bookworm "$root" ${mirror:+"$mirror"} >"$work/debootstrap.log" 2>&1 ||
    { tail -n 20 "$work/debootstrap.log" >&2; fail "debootstrap"; }
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount -t tmpfs -o mode=755 tmpfs "$root/run"

inside() { chroot "$root" /usr/bin/env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin TERM=dumb DEBIAN_FRONTEND=noninteractive "$@"; }
# Lists every file and folder with its type and contents, except for the records of dpkg, apt, man
# and systemctl, and for the service's user, which is kept.
state() {
    (cd "$root" && find . ./run -xdev \( -path ./etc/.pwd.lock -o -path './etc/*-' -o -path ./proc -o -path ./sys -o -path ./dev -o -path ./tmp -o -path ./var/lib/dpkg -o -path ./var/lib/apt \
        -o -path ./var/log -o -path ./var/cache -o -path ./run/systemd -o -path ./package \) -prune -o -printf '%p %y %m %u %l\n' | sort -u
    find etc -type f ! -name 'ld.so.cache' ! -path etc/.pwd.lock ! -path 'etc/*-' \
        ! -path etc/passwd ! -path etc/group ! -path etc/shadow ! -path etc/gshadow -exec md5sum {} + | sort
    grep -v '^yuzuri:' etc/passwd etc/group etc/shadow etc/gshadow)
}
check() { say "$debian: $*"; }
unit=/lib/systemd/system/yuzuri-share.service

for package in dist/*.deb; do
    debian=$(dpkg-deb -f "$package" Architecture)
    cp "$package" "$root/package.deb"
    # A program for another architecture runs in an emulator; everything else in a package is
    # independent of the architecture.
    call=()
    native=yes
    if [ "$debian" != "$(dpkg --print-architecture)" ]; then
        native=no
        inside dpkg --add-architecture "$debian"
        cp "$(command -v qemu-aarch64-static)" "$root/package.emulator"
        call=(/package.emulator)
    fi
    state | grep -v '^\./package' >"$work/before"

    inside apt-get -q -y install /package.deb >"$work/log" 2>&1 || { cat "$work/log" >&2; fail "$debian: installing"; }
    inside dpkg --verify "yuzuri:$debian" || fail "$debian: files differ from the package's"
    check "installed"

    told=$(inside "${call[@]}" /usr/bin/yuzuri --version)
    [ "$told" = "yuzuri $version" ] || fail "$debian: --version said: $told"
    told=$(inside "${call[@]}" /usr/bin/yuzuri-identify --version)
    [ "$told" = "yuzuri-identify $version" ] || fail "$debian: yuzuri-identify --version said: $told"
    inside "${call[@]}" /usr/bin/yuzuri share check >"$work/log" 2>&1 || { cat "$work/log" >&2; fail "$debian: its configuration"; }
    # doctor exits with 1 if something is missing; it prints its report in either case.
    inside "${call[@]}" /usr/bin/yuzuri doctor >"$work/log" 2>&1 || [ $? = 1 ]
    grep -q '^kernel' "$work/log" || { cat "$work/log" >&2; fail "$debian: doctor"; }
    if [ $native = yes ]; then
        # `yuzuri identify` executes the program of that name, which is in this package. The
        # laboratory is not, and `yuzuri lab` must say so.
        inside yuzuri identify --help | grep -q -- --parquet || fail "$debian: yuzuri identify does not become yuzuri-identify"
        told=$(inside yuzuri lab 2>&1) && fail "$debian: yuzuri lab started"
        grep -q 'yuzuri-lab' <<<"$told" || fail "$debian: yuzuri lab said: $told"
    fi
    check "the programs start: $(head -n 1 "$work/log")"

    pages=0
    for page in "$root"/usr/share/man/man1/yuzuri*.1.gz; do
        page=$(basename "$page" .1.gz)
        inside man --warnings -E UTF-8 "$page" >"$work/page" 2>"$work/log" || { cat "$work/log" >&2; fail "$debian: man $page"; }
        [ ! -s "$work/log" ] || { cat "$work/log" >&2; fail "$debian: man $page warns"; }
        grep -qi "^SYNOPSIS" "$work/page" || fail "$debian: man $page shows no page"
        pages=$((pages + 1))
    done
    # One page for each subcommand that is not a separate program.
    for word in watch top replay convert send receive share doctor completions man share-run share-status identify; do
        [ -e "$root/usr/share/man/man1/yuzuri-$word.1.gz" ] || fail "$debian: no page of yuzuri $word"
    done
    check "$pages pages are shown without a warning"

    completions=$root/usr/share
    for program in yuzuri yuzuri-identify; do
        bash -n "$completions/bash-completion/completions/$program"
        zsh -n "$completions/zsh/vendor-completions/_$program"
        fish -n "$completions/fish/vendor_completions.d/$program.fish"
    done
    # shellcheck disable=SC2016
    told=$(inside bash -c '. /usr/share/bash-completion/completions/yuzuri
        COMP_WORDS=(yuzuri wat) COMP_CWORD=1; _yuzuri yuzuri wat yuzuri; echo "${COMPREPLY[*]}"')
    [ "$told" = watch ] || fail "$debian: bash completes 'wat' to '$told'"
    told=$(fish -N -c "source $completions/fish/vendor_completions.d/yuzuri.fish; complete -C 'yuzuri wat'" | cut -f 1)
    [ "$told" = watch ] || fail "$debian: fish completes 'wat' to '$told'"
    check "completions parse in bash, zsh and fish, and complete"

    [ -e "$root$unit" ] || fail "$debian: no $unit"
    inside systemd-analyze verify $unit >"$work/log" 2>&1 || { cat "$work/log" >&2; fail "$debian: the unit"; }
    [ ! -s "$work/log" ] || { cat "$work/log" >&2; fail "$debian: systemd warns of the unit"; }
    told=$(inside getent passwd yuzuri | cut -d: -f 1,6,7) || true
    [ "$told" = yuzuri:/:/usr/sbin/nologin ] || fail "$debian: the service's user is: $told"
    told=$(inside systemctl is-enabled yuzuri-share.service) || true
    [ "$told" = disabled ] || fail "$debian: the unit is $told"
    check "the unit is right, and disabled; its user is there"

    # An upgrade keeps local changes.
    echo '# mine' >>"$root/etc/yuzuri/share.toml"
    inside systemctl enable --quiet yuzuri-share.service
    inside dpkg --force-confdef --force-confold -i /package.deb >"$work/log" 2>&1 || { cat "$work/log" >&2; fail "$debian: upgrading"; }
    tail -n 1 "$root/etc/yuzuri/share.toml" | grep -qx '# mine' || fail "$debian: an upgrade replaced the configuration"
    [ "$(inside systemctl is-enabled yuzuri-share.service)" = enabled ] || fail "$debian: an upgrade disabled the unit"
    check "an upgrade keeps the configuration, and the unit enabled"

    # Files that the daemon and its user may leave.
    mkdir -p "$root/var/lib/yuzuri" "$root/run/yuzuri"
    touch "$root/var/lib/yuzuri/node" "$root/run/yuzuri/share.migrated"
    inside "${call[@]}" /usr/bin/yuzuri share key /etc/yuzuri/share.key >/dev/null
    told=$(inside stat -c '%U:%G %a' /etc/yuzuri/share.key)
    [ "$told" = 'root:yuzuri 640' ] || fail "$debian: the service cannot read the key: $told"
    # A key file of an earlier version, when the service ran as root: the next upgrade lets the
    # service's group read it.
    inside sh -c 'chown root:root /etc/yuzuri/share.key; chmod 0600 /etc/yuzuri/share.key'
    inside dpkg --force-confdef --force-confold -i /package.deb >"$work/log" 2>&1 || { cat "$work/log" >&2; fail "$debian: upgrading"; }
    told=$(inside stat -c '%U:%G %a' /etc/yuzuri/share.key)
    [ "$told" = 'root:yuzuri 640' ] || fail "$debian: after an upgrade the service cannot read the key: $told"
    inside apt-get -q -y remove "yuzuri:$debian" >"$work/log" 2>&1 || { cat "$work/log" >&2; fail "$debian: removing"; }
    for gone in /usr/bin/yuzuri /usr/bin/yuzuri-identify /usr/share/doc/yuzuri $unit /usr/share/man/man1/yuzuri.1.gz; do
        [ ! -e "$root$gone" ] || fail "$debian: $gone still exists after removing"
    done
    for kept in /etc/yuzuri/share.toml /etc/yuzuri/share.key /var/lib/yuzuri/node; do
        [ -e "$root$kept" ] || fail "$debian: $kept is gone after removing, without purging"
    done
    inside apt-get -q -y purge "yuzuri:$debian" >"$work/log" 2>&1 || { cat "$work/log" >&2; fail "$debian: purging"; }
    state | grep -v '^\./package' >"$work/after"
    diff "$work/before" "$work/after" >"$work/log" || { cat "$work/log" >&2; fail "$debian: left behind or changed (above)"; }
    check "removing keeps the settings, purging leaves nothing ($(wc -l <"$work/after") files and folders compared)"
    if [ $native = no ]; then inside dpkg --remove-architecture "$debian"; fi
    rm -f "$root/package.deb" "$root/package.emulator"
done

# armv7's programs are in no package.
if [ -d dist/armv7 ]; then
    for program in yuzuri yuzuri-identify; do
        told=$(qemu-arm-static "dist/armv7/$program" --version)
        [ "$told" = "$program $version" ] || fail "armv7: $program --version said: $told"
    done
    qemu-arm-static dist/armv7/yuzuri doctor >"$work/log" 2>&1 || [ $? = 1 ]
    grep -q '^kernel' "$work/log" || { cat "$work/log" >&2; fail "armv7: doctor"; }
    say "armv7: the programs start: $(head -n 1 "$work/log")"
fi
