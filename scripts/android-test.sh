#!/usr/bin/env bash
# Tests the Android app on this host: android-test.sh [-DOPTION...]; -Dtest=NAME runs one class.
# Android's own code runs in the local JVM (Robolectric) and draws real pictures; the engine is the
# real one and sends to a real `yuzuri receive`. Pictures are written to android/build/pictures;
# YUZURI_PICTURES=keep makes them the new reference. No phone is needed. ENGINE=path uses an
# existing engine.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh android
. scripts/path.sh
. scripts/android-base.sh
# The dev profile is sufficient, because the app is under test.
engine=${ENGINE:-}
if [ -z "$engine" ]; then
    make --no-print-directory ui >&2
    cargo build --locked --quiet -p yuzuri
    engine=$(realpath "${CARGO_TARGET_DIR:-target}")/debug/yuzuri
fi
starter=$PWD/$(starter "$(uname -m)")
forbid=$PWD/$(forbid "$(uname -m)")

say "what Android forbids to apps, and the starter"
# For the engine alone the shell reports that a bad system call killed it; this is the expected
# result.
android/src/test/forbidden-calls.sh "$forbid" "$engine" "$starter" "$out/forbidden"

say "scripts/adb.sh against a folder in the place of a device"
android/src/test/adb-shim.sh

android_resources
say "the app (Robolectric)"
mvn -B -q -ntp -f android/pom.xml test "-Dyuzuri.engine=$engine" "-Dyuzuri.starter=$starter" "-Dyuzuri.forbid=$forbid" "$@"
say "passed; pictures: android/build/pictures"
