# Two commands for users, `make demo` and `make test`; the others are for developers. CONTRIBUTING.md says more.

SHELL := /bin/bash
.DELETE_ON_ERROR:
.PHONY: help demo test soak bench lint proto

# Built images, environments and, in continuous integration, cargo's output lie outside the tree.
cache := $(or $(INNKEEPER_CACHE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/innkeeper)
ifneq ($(CI)$(INNKEEPER_CACHE),)
export CARGO_TARGET_DIR ?= $(cache)/target
endif
export PATH := $(PATH):$(HOME)/.cargo/bin

help:
	@echo "make demo   grade twelve tasks three times with three patches each, and show how sandboxes were reused"
	@echo "make test   run every tier of tests that can run on this machine"
	@echo "make soak   the same with the full figures, for hours"
	@echo "make bench  measure each speed beside its floor"
	@echo "make lint   formatting and lints"
	@echo "make proto  write proto/src/gen again from the .proto files"

demo:
	@setup/machine.sh "make demo"
	@setup/packages.sh demo
	@setup/checkout.sh
	@exec python3 demo/demo.py

bench:
	@setup/machine.sh "make bench"
	@setup/packages.sh demo
	@setup/checkout.sh
	@exec python3 demo/bench.py

test:
	@setup/machine.sh "make test"
	@setup/packages.sh tests
	@setup/checkout.sh
	@exec python3 tests/tiers/run.py $(if $(ONLY),--only "$(ONLY)")

soak: log := $(cache)/soak-$(shell date +%Y%m%dT%H%M%S).log
soak:
	@setup/machine.sh "make soak"
	@setup/packages.sh tests
	@setup/checkout.sh
	@mkdir -p "$(cache)" && echo "everything that is said goes to $(log) too"
	@set -o pipefail; INNKEEPER_SOAK=1 python3 tests/tiers/run.py $(if $(ONLY),--only "$(ONLY)") 2>&1 | tee "$(log)"

lint:
	cargo fmt --all --check
	cargo clippy --locked --profile tests --workspace --all-targets -- -D warnings

proto:
	cargo run --locked -p innkeeper-proto-codegen -- proto proto/src/gen
