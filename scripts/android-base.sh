# Shared by the scripts of the Android app; to be sourced in the root of the tree, after
# scripts/path.sh.
# shellcheck shell=bash
# shellcheck disable=SC2034 # the scripts that source it use them
ANDROID_ALL=14-robolectric-10818077
R8=8.7.18
app=android/src/main
out=android/build
libraries=$out/lib
android_jar=$libraries/android-all-$ANDROID_ALL.jar
r8_jar=$libraries/r8-$R8.jar

min_sdk=$(sed -n 's/.*minSdkVersion="\([0-9]*\)".*/\1/p' $app/AndroidManifest.xml)

say() { printf 'android: %s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }

# The app has the version of the programs; its Android version code is derived from it.
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
version_code() {
    local major minor patch
    IFS=. read -r major minor patch <<<"${version%%-*}"
    echo $((major * 10000 + minor * 100 + patch))
}

# The Android API to compile against (Robolectric's build of it), and the tool that makes Android
# bytecode.
android_libraries() {
    if [ -e "$android_jar" ] && [ -e "$r8_jar" ]; then return; fi
    say "fetching Android $ANDROID_ALL and R8 $R8 (200 MB)"
    mkdir -p "$libraries"
    local each
    for each in org.robolectric:android-all:$ANDROID_ALL com.android.tools:r8:$R8; do
        mvn -B -q -ntp org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy \
            -Dartifact="$each" -DoutputDirectory="$PWD/$libraries" -Dmdep.useBaseVersion=true ||
            fail "Maven could not fetch $each"
    done
}

# Compiles the resources ($out/base.apk) and generates their Java names ($out/gen).
android_resources() {
    android_libraries
    rm -rf $out/gen $out/resources.zip $out/base.apk
    mkdir -p $out/gen
    aapt2 compile --dir $app/res -o $out/resources.zip
    # Debian's aapt2 is that of Android 10. It reads the resources of Android 14, skipping some of
    # them with a message, but not those of Android 15.
    aapt2 link -o $out/base.apk -I "$android_jar" --manifest $app/AndroidManifest.xml --java $out/gen \
        --version-name "$version" \
        --version-code "$(version_code)" --auto-add-overlay $out/resources.zip 2> >(grep -v 'Unknown chunk type' >&2)
}

# compiler ARCHITECTURE: prints the C compiler for it.
compiler() { if [ "$1" = "$(uname -m)" ]; then echo gcc; else echo "$1-linux-gnu-gcc"; fi; }

# starter ARCHITECTURE: builds the program that starts the engine, and prints its path.
starter() {
    mkdir -p "$out/starter/$1"
    "$(compiler "$1")" -Os -Wall -Wextra -Werror -ffreestanding -fno-stack-protector -fno-asynchronous-unwind-tables -static \
        -nostdlib -no-pie -Wl,-z,noexecstack,--build-id=none -s -o "$out/starter/$1/libstarter.so" $app/c/starter.c >&2
    echo "$out/starter/$1/libstarter.so"
}

# forbid ARCHITECTURE: builds the program that runs another program under Android's seccomp filter,
# for tests; prints its path.
forbid() {
    mkdir -p "$out/starter/$1"
    "$(compiler "$1")" -O1 -Wall -Wextra -Werror -static -o "$out/starter/$1/forbid" android/src/test/c/forbid.c >&2
    echo "$out/starter/$1/forbid"
}
