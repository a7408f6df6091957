# `make demo` and `make test` are all that is needed; both install what is missing (Debian, Ubuntu; as root).
SHELL := /bin/bash
# The same as scripts/path.sh.
export PATH := $(CURDIR)/target/tools/bin:$(HOME)/.cargo/bin:$(PATH):/usr/local/sbin:/usr/sbin:/sbin
UI := crates/yuzuri-web/ui

# Of the whole workspace in every call, whichever programs it is for: otherwise the dependencies would be built anew for each
# set of programs, with other features.
RELEASE := cargo build --release --locked --workspace

.PHONY: help setup build yuzuri lab identify ui python demo demo-programs picture test vm test-kernels paper-figures identify-figures share-figures share-figures-kernel check-results compare-wire compare-ns3 control-parity lab-speed lint bench bench-virtual fuzz attacks soak deny book dist test-dist apk test-android clean

help:
	@echo "make demo    build (4 minutes on a bare machine with two cores), and watch eight terminals without and with sharing (DEMO_SECONDS=40 ends by itself)"
	@echo "make test    build, lint and test everything (half an hour on two cores, 12 GB of disk at most)"
	@echo "make build   target/release/yuzuri, and beside it the programs that \`lab\` and \`identify\` become"
	@echo "make python  the wheel of the Python package, in release, with its tests"
	@echo "make vm      fetch Debian's kernels and build the images for virtual time"
	@echo "make test-kernels   the monitor's tests under Debian's kernels in QEMU (KERNELS=6.12-amd64 for one)"
	@echo "make share-figures   what sharing brings and costs, in simulation (minutes; MATRIX='--only text --seeds 1' for a part, LOT='--seed 7' for other settings by lot)"
	@echo "make share-figures-kernel   with the kernel's own TCP in virtual time: the tables of docs/sharing.md (what is kept is not repeated)"
	@echo "make identify-figures   how often the right congestion control is found, on paths drawn by lot (hours of virtual time)"
	@echo "make paper-figures   run the papers' experiments in virtual time (days; what results/ has is not repeated; SCENARIOS=visualizer-two for one)"
	@echo "make check-results   one kept run of each experiment again: by the same program it must be the same, byte for byte"
	@echo "make compare-wire   the laboratory's wire beside the kernel's netem, on three paths (a quarter of an hour)"
	@echo "make compare-ns3   ns-3 itself and the simulation with ns-3's ways (five minutes)"
	@echo "make control-parity   the congestion control without bounds beside the kernel's CUBIC (a quarter of an hour)"
	@echo "make lab-speed   whether the driver keeps time, and what a second costs in virtual time and in simulation"
	@echo "make book    the documentation as a book, into target/book, with its links tested (builds mdbook once: minutes)"
	@echo "make bench   print the figures of docs/evaluation.md"
	@echo "make bench-virtual   print the efficiency in virtual time: exact, the same everywhere"
	@echo "make fuzz    fuzz the readers with sanitizers (10 minutes those of captures, 1 minute each other; FUZZ_SECONDS=60 or FUZZ_HOURS=1 each)"
	@echo "make attacks   every test that attacks the programs, and the table of docs/attacks.md"
	@echo "make soak    hours under 20,000 flows and random faults (HOURS=24; SEED=1 repeats one; as root)"
	@echo "make deny    licences, bans and sources of all dependencies (DENY_ADVISORIES=1: known vulnerabilities, too)"
	@echo "make dist    static programs for x86_64 and aarch64, Debian packages, licences, components, signed checksums, into dist/"
	@echo "make test-dist   install dist/'s packages in a clean Debian, and run their programs under Debian's kernels in QEMU"
	@echo "make apk     the Android app, signed with a key made here: android/build/yuzuri.apk"
	@echo "make picture   README's picture anew: the page in the demo (a minute; as root)"
	@echo "make test-android   its tests on this host (no phone): pictures in android/build/pictures"

setup:
	@scripts/setup.sh build

ui: setup $(UI)/dist/.built

$(UI)/node_modules/.package-lock.json: $(UI)/package-lock.json | setup
	npm --prefix $(UI) ci --no-audit --no-fund --loglevel=error

$(UI)/dist/.built: $(UI)/node_modules/.package-lock.json $(shell find $(UI)/src -type f 2>/dev/null) $(UI)/build.mjs
	npm --prefix $(UI) run --silent build
	@touch $@

build: ui
	$(RELEASE) --bin yuzuri --bin yuzuri-lab --bin yuzuri-identify

yuzuri: ui
	$(RELEASE) --bin yuzuri

lab: ui
	$(RELEASE) --bin yuzuri-lab

identify: setup
	$(RELEASE) --bin yuzuri-identify

python:
	@scripts/setup.sh test
	@scripts/python-package.sh release

demo: demo-programs
	@scripts/demo.sh

demo-programs:
	@scripts/setup.sh programs
	@scripts/demo-build.sh

picture:
	@scripts/setup.sh test
	@scripts/page-picture.sh

test:
	@scripts/test.sh

vm:
	@scripts/setup.sh vm
	cargo run --locked --quiet -p yuzuri-vm -- build

test-kernels: ui
	@scripts/kernels.sh $(KERNELS)

lint:
	@scripts/lint.sh

share-figures:
	@scripts/setup.sh build
	$(RELEASE) --quiet --bin yuzuri-matrix
	target/release/yuzuri-matrix $(MATRIX)
	target/release/yuzuri-matrix lot $(LOT)

share-figures-kernel: lab
	@scripts/setup.sh vm
	@scripts/share-figures-kernel.sh

identify-figures: lab
	@scripts/setup.sh vm
	@scripts/identify-figures.sh

paper-figures: lab
	@scripts/setup.sh vm
	@scripts/paper-figures.sh $(SCENARIOS)

check-results: lab
	@scripts/setup.sh vm
	@scripts/kept-results.sh check $(if $(SCENARIOS),$(SCENARIOS),$(patsubst results/%/,%,$(wildcard results/*/)))

compare-wire: lab
	@scripts/setup.sh vm
	$(RELEASE) --quiet --bin yuzuri-vm
	@scripts/compare-wire.py

control-parity: lab
	@scripts/setup.sh vm
	$(RELEASE) --quiet --example same_windows
	@scripts/control-parity.sh

# Why ns-3's CUBIC comes out otherwise than Linux's (docs/simulation.md).
compare-ns3:
	@scripts/setup.sh ns3
	@scripts/compare-ns3.sh

# How fast it is, in real time, in virtual time and in simulation.
lab-speed: lab
	@scripts/setup.sh vm
	@scripts/lab-speed.py
	@$(RELEASE) --quiet --example speed
	@target/release/examples/speed

bench: ui
	@scripts/setup.sh bench
	$(RELEASE) --bin yuzuri --bin yuzuri-bench
	@target/release/yuzuri-bench all; missed=$$?; scripts/page-test.sh --load && exit $$missed

# In the guest an instruction is a nanosecond: no noise, but no caches either.
bench-virtual: yuzuri
	@scripts/setup.sh vm
	$(RELEASE) --bin yuzuri-bench --bin yuzuri-vm
	target/release/yuzuri-vm run --kernel 6.12 --as-shipped --memory 2048 --file target/release/yuzuri:/opt/yuzuri \
		target/release/yuzuri-bench efficiency --quick --yuzuri /opt/yuzuri --memory /tmp --disk /tmp

fuzz: ui
	@scripts/fuzz.sh

attacks: ui
	@scripts/attacks.sh

HOURS := 24
soak: yuzuri
	@scripts/setup.sh soak
	@python3 scripts/soak --hours $(HOURS) $(if $(SEED),--seed $(SEED)) $(if $(FLOWS),--flows $(FLOWS)) $(if $(STEP_CLOCK),--step-clock)

deny:
	@scripts/deny.sh

book:
	@scripts/setup.sh book
	@scripts/check-snippets.py
	@scripts/book.py

dist:
	@scripts/dist.sh

test-dist:
	@scripts/dist-test.sh

apk:
	@scripts/android-apk.sh

test-android:
	@scripts/android-test.sh

clean:
	cargo clean
	rm -rf $(UI)/dist $(UI)/node_modules dist android/build
