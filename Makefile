# `make demo` and `make test` are all that is needed; both install what is missing (Debian, Ubuntu; as root).
SHELL := /bin/bash
export PATH := $(HOME)/.cargo/bin:$(PATH)
UI := crates/yuzuri-web/ui

.PHONY: help setup build ui demo test lint bench fuzz clean

help:
	@echo "make demo    build, and watch two terminals share an access point (DEMO_SECONDS=20 ends by itself)"
	@echo "make test    build, lint and test everything"
	@echo "make build   target/release/yuzuri"
	@echo "make bench   print the figures of README"
	@echo "make fuzz    fuzz the readers (FUZZ_SECONDS=60 each)"

setup:
	@scripts/setup.sh build

ui: setup $(UI)/dist/.built

$(UI)/node_modules/.package-lock.json: $(UI)/package-lock.json
	npm --prefix $(UI) ci --no-audit --no-fund --loglevel=error

$(UI)/dist/.built: $(UI)/node_modules/.package-lock.json $(shell find $(UI)/src -type f 2>/dev/null) $(UI)/build.mjs
	npm --prefix $(UI) run --silent build
	@touch $@

build: ui
	cargo build --release --locked -p yuzuri

demo: build
	@scripts/demo.sh

test:
	@scripts/test.sh

lint:
	@scripts/lint.sh

bench: ui
	@scripts/setup.sh bench
	cargo build --release --locked -p yuzuri -p yuzuri-bench
	target/release/yuzuri-bench all
	scripts/page-test.sh --load

fuzz:
	@scripts/fuzz.sh

clean:
	cargo clean
	rm -rf $(UI)/dist $(UI)/node_modules
