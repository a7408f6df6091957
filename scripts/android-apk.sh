#!/usr/bin/env bash
# Builds the Android app without Google's SDK: android-apk.sh [FILE] (default:
# android/build/yuzuri.apk). The app contains the arm64 engine, built by scripts/static-build.sh;
# ENGINE_AARCH64=path uses an existing one. It is signed with a key that is generated for this tree
# and never leaves it; for distribution, sign it again with your own key.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh android
. scripts/path.sh
. scripts/android-base.sh
apk=${1:-$out/yuzuri.apk}
MAX_BYTES=6000000
KEY=$out/throw-away.keystore

engine=${ENGINE_AARCH64:-}
if [ -z "$engine" ]; then
    [ -x scripts/static-build.sh ] || fail "scripts/static-build.sh is missing: give an engine by ENGINE_AARCH64=path"
    engine=$(scripts/static-build.sh aarch64 | tail -n 1)
fi
[ -f "$engine" ] || fail "there is no engine at $engine"
# Use a variable: in a pipe, a reader that stops early would end readelf with SIGPIPE, and with it
# this script.
headers=$(readelf -hlW "$engine")
grep -q 'Machine: *AArch64' <<<"$headers" || fail "$engine is not an arm64 program"
! grep -q INTERP <<<"$headers" || fail "$engine needs shared libraries that Android does not have: build it by scripts/static-build.sh"

android_resources
rm -rf $out/classes $out/dex $out/package
mkdir -p $out/classes $out/dex $out/package/lib/arm64-v8a
# Android 8 has the class library of Java 8. Robolectric's build of Android lacks some annotations;
# javac would warn about each.
find $app/java $out/gen -name '*.java' >$out/sources.txt
javac -Xlint:all,-options,-serial,-classfile,-deprecation -Werror --release 8 -encoding UTF-8 \
    -classpath "$android_jar" -d $out/classes @$out/sources.txt
find $out/classes -name '*.class' >$out/classes.txt
java -cp "$r8_jar" com.android.tools.r8.D8 --release --min-api "$min_sdk" --lib "$android_jar" --output $out/dex @$out/classes.txt

cp $out/dex/classes.dex $out/package/
cp "$(starter aarch64)" $out/package/lib/arm64-v8a/libstarter.so
cp "$engine" $out/package/lib/arm64-v8a/libyuzuri.so
aarch64-linux-gnu-strip $out/package/lib/arm64-v8a/libyuzuri.so 2>/dev/null || strip $out/package/lib/arm64-v8a/libyuzuri.so
cp $out/base.apk $out/package.apk
# Set the timestamps to the commit time, so that the same tree gives the same package.
find $out/package -exec touch -h -d "@$(git log -1 --format=%ct 2>/dev/null || echo 315532800)" {} +
(cd $out/package && TZ=UTC zip -q -9 -X ../package.apk classes.dex lib/arm64-v8a/libstarter.so lib/arm64-v8a/libyuzuri.so)
zipalign -f -p 4 $out/package.apk $out/aligned.apk
if [ ! -e $KEY ]; then
    keytool -genkeypair -keystore $KEY -storepass throw-away -keypass throw-away -alias yuzuri -keyalg RSA -keysize 3072 \
        -validity 10000 -dname "CN=Yuzuri built from source" >/dev/null
fi
apksigner sign --ks $KEY --ks-pass pass:throw-away --min-sdk-version "$min_sdk" --out "$apk" $out/aligned.apk
rm -f "$apk.idsig"

apksigner verify --min-sdk-version "$min_sdk" "$apk"
badging=$(aapt2 dump badging "$apk" 2>/dev/null)
expect() { grep -qF "$1" <<<"$badging" || fail "the package does not declare: $1"; }
expect "package: name='org.yuzuri'"
expect "versionName='$version'"
expect "native-code: 'arm64-v8a'"
expect "launchable-activity: name='org.yuzuri.MainActivity'"
permissions=$(sed -n "s/^uses-permission: name='\(.*\)'.*/\1/p" <<<"$badging" | sort | paste -sd' ')
wanted="android.permission.CHANGE_WIFI_MULTICAST_STATE android.permission.FOREGROUND_SERVICE android.permission.FOREGROUND_SERVICE_DATA_SYNC android.permission.INTERNET"
[ "$permissions" = "$wanted" ] || fail "the package requests: $permissions"
bytes=$(stat -c %s "$apk")
say "$apk: $bytes bytes, of them the engine $(unzip -lv "$apk" | awk '/libyuzuri/ {print $3 " packed, " $1 " unpacked"}')"
grep -E "^(package|sdkVersion|targetSdkVersion|uses-permission|native-code|application-label):" <<<"$badging" >&2
[ "$bytes" -le $MAX_BYTES ] || fail "that is more than $MAX_BYTES bytes"
echo "$apk"
