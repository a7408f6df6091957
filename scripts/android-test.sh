#!/usr/bin/env bash
# Tests the Android app on this host: android-test.sh [-DOPTION...], where -Dtest=NAME runs one class. Android's own code runs in
# the Java machine here (Robolectric) and draws real pictures; the engine is the real one, and what it sends to is a real
# `yuzuri receive`. Pictures are left in android/build/pictures; YUZURI_PICTURES=keep takes them as those to compare with. No phone
# takes part. ENGINE=path takes an engine that is there already.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh android
. scripts/path.sh
. scripts/android-base.sh
# The dev profile is enough: what is measured here is the app.
engine=${ENGINE:-}
if [ -z "$engine" ]; then
    make --no-print-directory ui >&2
    cargo build --locked --quiet -p yuzuri
    engine=$(realpath "${CARGO_TARGET_DIR:-target}")/debug/yuzuri
fi
starter=$PWD/$(starter "$(uname -m)")
forbid=$PWD/$(forbid "$(uname -m)")

say "what Android forbids to apps, and the starter"
# The shell says of the engine alone that a bad system call ended it: that is what is wanted.
android/src/test/forbidden-calls.sh "$forbid" "$engine" "$starter" "$out/forbidden"

say "scripts/adb.sh against a folder in the place of a device"
android/src/test/adb-shim.sh

android_resources
say "the app (Robolectric)"
mvn -B -q -ntp -f android/pom.xml test "-Dyuzuri.engine=$engine" "-Dyuzuri.starter=$starter" "-Dyuzuri.forbid=$forbid" "$@"
say "passed; pictures: android/build/pictures"
