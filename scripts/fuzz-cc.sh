#!/usr/bin/env bash
# The C compiler of the fuzz build. It compiles the C code that a reader executes, which is zstd,
# with AddressSanitizer, UndefinedBehaviorSanitizer and the fuzzer's counters, and other C code
# (libbpf, which build scripts also link, and mimalloc) as usual. Undefined behaviour ends in a
# trap, which needs no runtime library. zstd computes pointers beyond its buffers without
# dereferencing them, and disables this check in its own sanitizer builds; so does this script.
case "$PWD/" in
*/zstd-sys-*) exec clang "$@" -g -fsanitize=address,undefined,fuzzer-no-link -fsanitize-trap=undefined -fno-sanitize=pointer-overflow ;;
*) exec clang "$@" ;;
esac
