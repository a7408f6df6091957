# `make demo` and `make test` are enough for most purposes. Both install missing dependencies
# (Debian, Ubuntu; as root).
SHELL := /bin/bash
# As in scripts/path.sh.
export PATH := $(CURDIR)/target/tools/bin:$(HOME)/.cargo/bin:$(PATH):/usr/local/sbin:/usr/sbin:/sbin
UI := crates/yuzuri-web/ui
# The scripts find programs in target/.
unexport CARGO_TARGET_DIR

# Always build the whole workspace, whichever programs are needed. Otherwise cargo would rebuild the
# dependencies with different features for each set of programs.
RELEASE := cargo build --release --locked --workspace

.PHONY: help setup build yuzuri lab identify ui python demo demo-programs picture test vm test-kernels paper-figures identify-figures wild-figures why-figures share-figures share-figures-kernel ap-figures check-results compare-wire compare-ns3 control-parity lab-speed gate-attacks lint bench bench-virtual fuzz attacks soak deny book dist test-dist apk test-android clean

help:
	@echo "make demo    build (4 minutes on a bare machine with two cores), then show eight terminals without and with sharing (DEMO_SECONDS=40 sets the duration; DEMO=ap: the access point shares for terminals without Yuzuri)"
	@echo "make test    build, lint and test everything (30 minutes on two cores, up to 6 GB of disk)"
	@echo "make build   build target/release/yuzuri and the programs for \`yuzuri lab\` and \`yuzuri identify\`"
	@echo "make python  build the wheel of the Python package in release mode, and run its tests"
	@echo "make vm      download Debian's kernels and build the guest images for virtual time"
	@echo "make test-kernels   run the monitor's tests under Debian's kernels in QEMU (KERNELS=6.12-amd64 selects one)"
	@echo "make share-figures   simulate the benefit and the cost of sharing (minutes; MATRIX='--only text --seeds 1' selects a part, RANDOM_SETTINGS='--seed 7' selects other random settings)"
	@echo "make share-figures-kernel   the same with the kernel's TCP in virtual time: fills the tables of docs/sharing.md (kept runs are not repeated)"
	@echo "make identify-figures   measure how often the right congestion control is identified, on random paths (hours of virtual time)"
	@echo "make ap-figures   run terminals without Yuzuri behind an access point that shares for them, compared with CUBIC, BBR, FQ-CoDel and the daemon, in simulation (minutes) and in virtual time (hours): fills the tables of docs/access-point.md"
	@echo "make wild-figures   the same on captures of random transfers of this kernel in network namespaces, and on labelled ones in TRACES=FOLDER, and on copies, as other users would have made them, of those at the sender in SENDERS=FOLDER (SEED=7 RUNS=24; as root; 10 minutes)"
	@echo "make why-figures   make random transfers with a known limit in virtual time, and print how often \`yuzuri why\` finds it (SEED=7 ROUNDS=4; 5 minutes of CPU a round; CLOCK=real: on this machine's kernel, as root, 3 minutes a round)"
	@echo "make paper-figures   run the papers' experiments in virtual time (days; runs kept in results/ are not repeated; SCENARIOS=visualizer-two selects one)"
	@echo "make check-results   repeat one kept run of each experiment: with the same program the result must be identical byte for byte"
	@echo "make compare-wire   compare the laboratory's wire with the kernel's netem on three paths (15 minutes)"
	@echo "make compare-ns3   compare ns-3 with the simulation set to behave like ns-3 (5 minutes)"
	@echo "make control-parity   compare the congestion control without bounds with the kernel's CUBIC (15 minutes)"
	@echo "make lab-speed   check that the driver keeps up, and measure the cost of a second in virtual time and in simulation"
	@echo "make book    build the documentation as a book in target/book, and check its links (builds mdbook the first time: minutes)"
	@echo "make bench   measure the figures of docs/evaluation.md"
	@echo "make bench-virtual   measure the efficiency in virtual time: exact and the same on every machine"
	@echo "make fuzz    fuzz all input readers with sanitizers (capture readers 10 minutes each, others 1 minute; FUZZ_SECONDS=60 or FUZZ_HOURS=1 sets the time of each)"
	@echo "make attacks   run every test that attacks the programs, and print the table of docs/attacks.md"
	@echo "make gate-attacks   10 million hostile frames through the access point's gate, and 20 kills under traffic with tcx and with clsact (CASES, KILLS, SEED; as root; 10 minutes)"
	@echo "make soak    run under 20,000 flows and random faults for hours (HOURS=24; SEED=1 reproduces a run; as root)"
	@echo "make deny    check licences, bans and sources of all dependencies (DENY_ADVISORIES=1: also known vulnerabilities)"
	@echo "make dist    build static programs for x86_64 and aarch64, Debian packages, licences, SBOM and signed checksums in dist/"
	@echo "make test-dist   install the packages of dist/ in a clean Debian, and run their programs under Debian's kernels in QEMU"
	@echo "make apk     build the Android app, signed with a generated key: android/build/yuzuri.apk"
	@echo "make test-android   run the app's tests on this host, without a phone; pictures in android/build/pictures"
	@echo "make picture   take the picture of the README again: the page during the demo (1 minute; as root)"

setup:
	@scripts/setup.sh build

# What `build.mjs` writes: the page, and what reports contain.
BUILT_UI := $(UI)/dist/.built $(UI)/dist-report/report.js $(UI)/dist-report/report.css

ui: setup $(BUILT_UI)

$(UI)/node_modules/.package-lock.json: $(UI)/package-lock.json | setup
	npm --prefix $(UI) ci --no-audit --no-fund --loglevel=error

$(BUILT_UI) &: $(UI)/node_modules/.package-lock.json $(shell find $(UI)/src -type f 2>/dev/null) $(UI)/build.mjs
	npm --prefix $(UI) run --silent build
	@touch $(BUILT_UI)

build: ui
	$(RELEASE) --bin yuzuri --bin yuzuri-lab --bin yuzuri-identify

yuzuri: ui
	$(RELEASE) --bin yuzuri

lab: ui
	$(RELEASE) --bin yuzuri-lab

identify: ui
	$(RELEASE) --bin yuzuri-identify

python: ui
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
	$(RELEASE) --quiet --bin yuzuri-eval
	target/release/yuzuri-eval sharing $(MATRIX)
	target/release/yuzuri-eval sharing random $(RANDOM_SETTINGS)

share-figures-kernel: lab
	@scripts/setup.sh vm
	@scripts/share-figures-kernel.sh

ap-figures: lab
	@scripts/setup.sh vm
	$(RELEASE) --quiet --bin yuzuri-eval
	@scripts/ap-figures.sh

identify-figures: lab
	@scripts/setup.sh vm
	@scripts/identify-figures.sh

SEED := $(shell date +%s)
RUNS := 24
UNLIMITED :=
wild-figures: identify
	@scripts/wild-captures.py --seed $(SEED) --runs $(RUNS) --out target/wild/$(SEED)
	@scripts/wild-figures.py --list $(if $(UNLIMITED),--unlimited $(UNLIMITED)) target/wild/$(SEED) $(TRACES)
	@scripts/wild-transfers.py --seed $(SEED) --runs $(RUNS) --out target/wild/transfers-$(SEED)
	@scripts/wild-judge.py --list target/wild/transfers-$(SEED)
	@$(if $(SENDERS),scripts/wild-rows.py $(SENDERS))

ROUNDS := 4
CLOCK := virtual
why-figures: ui
	@scripts/setup.sh test
	@scripts/setup.sh vm
	$(RELEASE) --quiet --bin yuzuri --bin yuzuri-eval --bin yuzuri-vm
	@CLOCK=$(CLOCK) scripts/why-figures.sh $(SEED) $(ROUNDS)

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
	$(RELEASE) --quiet --bin yuzuri-eval
	@scripts/control-parity.sh

# Compares ns-3's CUBIC with Linux's (docs/simulation.md).
compare-ns3:
	@scripts/setup.sh ns3
	@scripts/compare-ns3.sh

# Measures the laboratory's speed in real time, in virtual time and in simulation.
lab-speed: lab
	@scripts/setup.sh vm
	@scripts/lab-speed.py
	@$(RELEASE) --quiet --bin yuzuri-eval
	@target/release/yuzuri-eval simulation speed

bench: ui
	@scripts/setup.sh bench
	$(RELEASE) --bin yuzuri --bin yuzuri-bench
	@target/release/yuzuri-bench all; missed=$$?; scripts/page-test.sh --load && exit $$missed

# In the guest one instruction takes one nanosecond: no noise, but no cache effects either. Exit code 2 means
# that a target was missed; they are targets for hardware, where a nanosecond is several instructions.
bench-virtual: yuzuri
	@scripts/setup.sh vm
	$(RELEASE) --bin yuzuri-bench --bin yuzuri-vm
	@for bench in efficiency kernel-cost "flows --flows 200"; do \
		target/release/yuzuri-vm run --kernel 6.12 --as-shipped --memory 2048 --file target/release/yuzuri:/opt/yuzuri \
			target/release/yuzuri-bench $$bench --quick --yuzuri /opt/yuzuri --memory /tmp --disk /tmp || \
			{ code=$$?; [ $$code = 2 ] || exit $$code; }; \
	done

fuzz: ui
	@scripts/fuzz.sh

attacks: ui
	@scripts/attacks.sh

CASES := 10000000
KILLS := 20
gate-attacks:
	@scripts/setup.sh test
	CASES=$(CASES) cargo test --locked -p yuzuri-gate --test hostile -- --nocapture the_bpf_program_matches_the_model
	YUZURI_KILL_ROUNDS=$(KILLS) cargo test --locked -p yuzuri-gate --test wire -- --nocapture a_transfer_is_plain_soon_after_a_kill

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
	rm -rf $(UI)/dist $(UI)/dist-report $(UI)/node_modules dist android/build
