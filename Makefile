# Every target is a script in scripts/, and can be run without make. What a target prints first says what it does.

SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help demo bench bench-many bench-vm compare test lint bindings man check-fresh test-cargo test-tools test-features test-examples test-loom test-sim test-planted test-soak soak test-package test-vm freestanding mutants

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 24

demo: ## move 1 GiB from rsend to rrecv over shared memory, compare it, then flip a bit on purpose
	@scripts/demo.sh

bench: ## measure superpipe beside the raw limits of this machine: target/benchmarks/benchmarks.md (20 minutes at most, nothing else running)
	@scripts/bench.sh

bench-many: ## measure pollers, many peers, loans and tokio: target/benchmarks/many.md (10 minutes, nothing else running)
	@scripts/bench-many.sh

bench-vm: ## measure over rxe and siw in a VM beside perftest and UCX: the part RDMA of docs/benchmarks.md (10 minutes, nothing else running)
	@scripts/bench-vm.sh

compare: ## the same beside UCX, Open MPI, MPICH, Intel MPI and iceoryx2: docs/benchmarks.md (45 minutes at most; fetches them)
	@scripts/compare.sh

test: ## everything that CI runs: lint, then every test, with seconds per stage
	@scripts/test.sh

lint: ## format, clippy, bindings, docs, licences and dependencies, no unsafe in core
	@scripts/lint.sh

bindings: ## write ffi/verbs/src/snapshot.rs again, from the headers of Debian 12's rdma-core, with bindgen
	@scripts/bindings.sh

man: ## man pages and shell completions of the tools: target/man, target/completions
	@scripts/man.sh

check-fresh: ## make demo and make test, each in a fresh Debian with only Rust, make and a C linker (root)
	@scripts/check-fresh.sh

# The stages of `make test`, one by one.

test-cargo: ## cargo test: unit, property and doc tests
	@scripts/test-cargo.sh

test-tools: ## cargo test of the tools as they ship: pairs of processes
	@scripts/test-tools.sh

test-features: ## every feature of every package, alone
	@scripts/test-features.sh

test-examples: ## run examples/*.rs
	@scripts/test-examples.sh

test-loom: ## the loom models
	@scripts/test-loom.sh

test-sim: ## the simulator: 100,000 runs with faults, and every interleaving of small cases
	@scripts/test-sim.sh

test-planted: ## bugs planted in core, each of which the simulator must find
	@scripts/test-planted.sh

test-soak: ## 45 s, a sender that is stopped and continued at random; 1 min, 64 connections within 16 MiB
	@scripts/test-soak.sh

soak: ## 64 connections within 16 MiB for 20 minutes
	@scripts/test-soak.sh crowd --seconds 1200

test-package: ## build what would be published, from the packed files
	@scripts/test-package.sh

test-vm: ## real RDMA drivers of Linux, rxe and siw, in a small VM (fetches a kernel once): vm/README.md
	@scripts/test-vm.sh

freestanding: ## the core without std, allocator and libc: build it, run it, measure its text
	@scripts/freestanding.sh

# Not part of `make test`.

mutants: ## break the code in one place after the other, and count what the tests catch (hours; PART=driver SHARD=0/20 a sample)
	@scripts/mutants.sh
