#!/usr/bin/env bash
# The C compiler of the fuzz build. Of the C that a reader runs, which is zstd, it makes code with AddressSanitizer, with
# UndefinedBehaviorSanitizer and with the fuzzer's counters; other C (libbpf, which build scripts link too, and mimalloc) is
# compiled as ever. What is undefined ends in a trap, for which no runtime is needed. zstd computes pointers beyond its buffers
# that it never follows and leaves that check out of its own builds with the sanitizer: so does this one.
case "$PWD/" in
*/zstd-sys-*) exec clang "$@" -g -fsanitize=address,undefined,fuzzer-no-link -fsanitize-trap=undefined -fno-sanitize=pointer-overflow ;;
*) exec clang "$@" ;;
esac
