#!/usr/bin/env bash
# Prints the path of a Chromium that can be automated, and fails if there is none: CHROMIUM, the
# system's, or the one from npm that `chromium.sh --fetch` unpacks into target/tools/chromium
# (x86_64).
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/path.sh
package=crates/yuzuri-web/tests/chromium
fetched=$PWD/target/tools/chromium/chromium

if [ "${1:-}" = --fetch ]; then
    npm --prefix $package ci --ignore-scripts --no-audit --no-fund --loglevel=error
    mkdir -p "$(dirname "$fetched")"
    node --input-type=module - "$package/node_modules/@sparticuz/chromium/bin/chromium.br" "$fetched" <<'END'
import { createReadStream, createWriteStream, renameSync } from "node:fs";
import { pipeline } from "node:stream/promises";
import { createBrotliDecompress } from "node:zlib";
const [from, to] = process.argv.slice(2);
await pipeline(createReadStream(from), createBrotliDecompress(), createWriteStream(`${to}.part`, { mode: 0o755 }));
renameSync(`${to}.part`, to);
END
    # Only this one file is needed; the package takes another third of its size.
    rm -rf $package/node_modules
    exit
fi

for each in ${CHROMIUM:+"$CHROMIUM"} chromium google-chrome "$fetched"; do
    path=$(command -v "$each") || continue
    # A snap cannot access the folders through which a test communicates with its browser.
    case "$(readlink -f "$path")" in */snap | */snap/*) continue ;; esac
    echo "$path"
    exit
done
exit 1
