#!/usr/bin/env bash
# Runs `make demo` or `make test` as on a fresh machine: in a minimal root folder of a release, as
# root, with an empty home and a clean environment, from a clean copy of the committed tree.
# README.md in this folder describes what it tests and what not.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tree=$(cd "$here/../.." && pwd)

say() { printf 'bare: %s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }

case "${1:-}" in
debian-12) distribution=debian suite=bookworm ;;
debian-13) distribution=debian suite=trixie ;;
ubuntu-24.04) distribution=ubuntu suite=noble ;;
*) fail "usage: bare.sh debian-12|debian-13|ubuntu-24.04 demo|test|setup ..." ;;
esac
release=$1 jobs=("${@:2}")
[ ${#jobs[@]} != 0 ] || fail "usage: bare.sh $release demo|test|setup ..."
for job in "${jobs[@]}"; do
    case "$job" in
    demo | test | setup) ;;
    *) fail "$job: not one of demo, test, setup" ;;
    esac
done
[ "$(id -u)" = 0 ] || fail "it makes a root and mounts: run it as root"

# --- outside: a folder and a mount namespace for the work, which are always removed ---

if [ -z "${BARE_INSIDE:-}" ]; then
    for command in debootstrap git unshare chroot; do
        command -v $command >/dev/null || fail "$command is missing: apt-get install debootstrap git util-linux coreutils"
    done
    mkdir -p "${BARE_FOLDER:-/tmp}"
    BARE_INSIDE=$(mktemp -d "${BARE_FOLDER:-/tmp}/yuzuri-bare-XXXXXX")
    export BARE_INSIDE
    mkdir "$BARE_INSIDE/root"
    worker=
    # Processes with our root folder, in any namespace, and running processes of the worker's group.
    inside() {
        { stat -L -c '%d:%i %n' /proc/[0-9]*/root 2>/dev/null || true; } |
            sed -n "s,^$(stat -c %d:%i "$BARE_INSIDE/root") /proc/\([0-9]*\)/root$,\1,p"
        [ -z "$worker" ] || { cat /proc/[0-9]*/stat 2>/dev/null || true; } |
            sed -nE "s/^([0-9]+) \(.*\) [^ZX] [0-9]+ $worker .*/\1/p"
    }
    cleanup() {
        # A second Ctrl-C must not interrupt the cleanup.
        trap - EXIT
        trap '' INT TERM HUP
        local began=$SECONDS
        inside | xargs -r kill -TERM 2>/dev/null || true
        while [ -n "$(inside)" ]; do
            # Give processes time to end in order.
            [ $((SECONDS - began)) -lt 15 ] || inside | xargs -r kill -KILL 2>/dev/null || true
            sleep 0.3
        done
        wait
        # The mounts disappeared with the worker's namespace: only files are left to remove.
        rm -rf --one-file-system "$BARE_INSIDE"
    }
    trap cleanup EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
    # A separate process group, so that it can be ended as a whole and does not start with SIGINT
    # ignored.
    set -m
    unshare --mount --propagation private "$0" "$@" </dev/null &
    worker=$!
    set +m
    status=0
    wait $worker || status=$?
    exit $status
fi

# --- inside the mount namespace ---

work=$BARE_INSIDE root=$BARE_INSIDE/root
cache=${BARE_CACHE:-}
began=$SECONDS

# Prints the mirror that this machine's apt uses for an archive with this label, if any.
mirror_here() {
    apt-get indextargets --format '$(LABEL)|$(REPO_URI)' 'Created-By: Packages' 2>/dev/null |
        sed -n "s/^$1|//p" | head -n 1
}

# The keys of the release's archive, from this machine or from the signed archive of Debian 13.
keyring() {
    local name=$distribution-archive-keyring keys lists=$work/apt
    keys=/usr/share/keyrings/$name.gpg
    if [ ! -e "$keys" ]; then
        [ $distribution = ubuntu ] && [ -n "$(mirror_here Debian)" ] || fail "install the package that has $keys"
        mkdir -p "$lists/lists/partial" "$lists/cache/archives/partial"
        echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $(mirror_here Debian) trixie main" >"$lists/sources"
        local options=(-qq -o Dir::Etc::SourceList="$lists/sources" -o Dir::Etc::SourceParts=/dev/null
            -o Dir::State::Lists="$lists/lists" -o Dir::Cache="$lists/cache" -o APT::Sandbox::User=root)
        apt-get "${options[@]}" update >&2
        (cd "$lists" && apt-get "${options[@]}" download ubuntu-keyring && dpkg-deb -x ubuntu-keyring*.deb .) >&2
        keys=$lists$keys
    fi
    [ -e "$keys" ] || fail "no keys of $distribution's archive"
    echo "$keys"
}

make_root() {
    local keys mirror options=(--variant=minbase)
    keys=$(keyring)
    if [ $distribution = debian ]; then mirror=$(mirror_here Debian); else mirror=$(mirror_here Ubuntu); fi
    # A debootstrap older than the release uses the script of an earlier release.
    cp -a /usr/share/debootstrap "$work/debootstrap"
    [ -e "$work/debootstrap/scripts/$suite" ] || ln -s gutsy "$work/debootstrap/scripts/$suite"
    # An archive with https needs certificates before the first package.
    case "$mirror" in https:*) options+=(--include=make,ca-certificates) ;; *) options+=(--include=make) ;; esac
    if [ -n "$cache" ]; then
        mkdir -p "$cache/debootstrap-$release"
        options+=(--cache-dir="$cache/debootstrap-$release")
    fi
    DEBOOTSTRAP_DIR=$work/debootstrap debootstrap "${options[@]}" --keyring="$keys" $suite "$root" ${mirror:+"$mirror"} \
        >"$work/debootstrap.log" 2>&1 || { tail -n 30 "$work/debootstrap.log" >&2; fail "debootstrap failed"; }

    local list=$root/etc/apt/sources.list security=
    mirror=$(sed -n 's/^deb \([^ ]*\) .*/\1/p' "$list" | head -n 1)
    if [ $distribution = debian ]; then
        security=$(mirror_here Debian-Security)
        cat >"$list" <<END
deb $mirror $suite main
deb $mirror $suite-updates main
deb ${security:-${mirror%/}-security} $suite-security main
END
    else
        local pocket
        for pocket in $suite $suite-updates $suite-security; do
            echo "deb $mirror $pocket main restricted universe multiverse"
        done >"$list"
    fi
}

# Copies this machine's settings for reaching registries: names, certificates, proxies, mirrors.
carry_settings() {
    local file
    mkdir -p "$root/usr/local/share/ca-certificates"
    for file in /usr/local/share/ca-certificates/*.crt; do
        if [ -e "$file" ]; then cp "$file" "$root/usr/local/share/ca-certificates/"; fi
    done
    for file in /etc/resolv.conf /etc/hosts /etc/pip.conf /etc/npmrc "$HOME/.npmrc" "$HOME/.cargo/config.toml" "$HOME/.config/pip/pip.conf"; do
        [ -e "$file" ] || continue
        local to=$root${file/#$HOME//root}
        mkdir -p "$(dirname "$to")"
        cp -L "$file" "$to"
    done
    apt-config dump Acquire | grep -E '^Acquire::(http|https|Check-|Retries|ForceIP)' >"$root/etc/apt/apt.conf.d/90host" || true
}
settings() {
    env -0 | grep -zE '^([a-z]+_proxy|[A-Z]+_PROXY|SSL_CERT_FILE|SSL_CERT_DIR|NODE_EXTRA_CA_CERTS|npm_config_[^=]*|NPM_CONFIG_[^=]*|CARGO_(REGISTR|SOURCE|HTTP|NET|PROFILE)[^=]*|PIP_(CERT|INDEX_URL|EXTRA_INDEX_URL|DEFAULT_TIMEOUT|TRUSTED_HOST)|RUSTUP_(DIST_SERVER|UPDATE_ROOT))='
}

# Mounts the file systems of a booted machine.
mount_all() {
    mount -t proc proc "$root/proc"
    mount -t sysfs sysfs "$root/sys"
    mount -t bpf bpf "$root/sys/fs/bpf"
    mount -t tracefs tracefs "$root/sys/kernel/tracing"
    mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
    mount --rbind /dev "$root/dev"
    mount -t tmpfs -o mode=755 tmpfs "$root/run"
    mkdir -p "$root/run/lock"
    local pair from to
    if [ -n "$cache" ]; then
        for pair in apt-$release:/var/cache/apt/archives cargo:/root/.cargo/registry npm:/root/.npm pip:/root/.cache/pip; do
            from=$cache/${pair%%:*} to=$root${pair#*:}
            mkdir -p "$from" "$to"
            mount --bind "$from" "$to"
        done
        mkdir -p "$root/var/cache/apt/archives/partial"
    fi
}

copy_tree() {
    mkdir "$root/yuzuri"
    git -C "$tree" archive "${BARE_COMMIT:-HEAD}" | tar -x -C "$root/yuzuri"
    install -m 755 "$here/step.sh" "$root/step"
    local file
    for file in ${BARE_OVERLAY:-}; do
        mkdir -p "$(dirname "$root/yuzuri/$file")"
        cp -a "$tree/$file" "$root/yuzuri/$file"
    done
}

run() {
    local settings=()
    mapfile -d '' -t settings < <(settings)
    chroot "$root" /usr/bin/env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin TERM="${TERM:-dumb}" \
        "${settings[@]}" BARE_STEPS=/steps BARE_TREE=/yuzuri DEMO_SECONDS=8 DEMO_WEB=127.0.0.1:0 /bin/sh -c 'cd /yuzuri && exec "$@"' sh "$@"
}
# Prints the duration of each step of `make`. On a busy machine CPU time is more meaningful than
# wall-clock time.
steps() {
    printf '%8s %8s  %s\n' "clock s" "CPU s" step
    awk -F '\t' '{ wall = $1; cpu = $2 + $3 }
        wall < 0.5 { rest += wall; rest_cpu += cpu; next }
        { printf "%8.1f %8.1f  %s\n", wall, cpu, substr($4, 1, 90) }
        END { printf "%8.1f %8.1f  steps of less than half a second\n", rest, rest_cpu }' "$root/steps"
    rm -f "$root/steps"
}
# Size of the root folder in MB, without downloaded packages and the bind-mounted cache of this
# machine.
megabytes() { du -sxm --exclude="$root/yuzuri" --exclude="$root/root" --exclude="$root/var/cache/apt" --exclude="$root/dev" "$root" | cut -f 1; }

say "$release: making the root"
# The root must be a mount point: tests that create mount namespaces rely on it.
mount --bind "$root" "$root"
make_root
carry_settings
mount_all
copy_tree
say "$release: the root is made ($((SECONDS - began)) s, $(megabytes) MB)"

for job in "${jobs[@]}"; do
    before=$(megabytes) began=$SECONDS status=0
    say "$release: make $job"
    run make "$job" SHELL=/step || status=$?
    steps >&2
    say "$release: make $job ended with $status after $(((SECONDS - began + 30) / 60)) min ($((SECONDS - began)) s):" \
        "$(($(megabytes) - before)) MB of packages installed, $(du -sxm "$root/root" | cut -f 1) MB in the home," \
        "$(du -sxm "$root/yuzuri" | cut -f 1) MB in the tree"
    [ $status = 0 ] || exit $status

    # If nothing is missing, setup prints nothing and changes nothing.
    what=build
    if [ "$job" = test ]; then what=test; fi
    again=$(run scripts/setup.sh $what 2>&1) || fail "setup.sh $what failed the second time: $again"
    [ -z "$again" ] || fail "setup.sh $what installed something the second time: $again"
    say "$release: make $job passed"
done
