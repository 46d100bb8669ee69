#!/usr/bin/env bash
# Everything that CI runs. Each stage is a script of its own; the first that fails ends the run with its name.
. "$(dirname "$0")/lib.sh"

say "tests superpipe: lint, cargo test, each feature alone, examples, loom models, simulator, planted bugs, soak, freestanding core, packages, VM, benchmarks, demo"
need_rust
begin_stages
stage lint scripts/lint.sh
stage test scripts/test-cargo.sh
stage features scripts/test-features.sh
stage examples scripts/test-examples.sh
stage loom scripts/test-loom.sh
stage sim scripts/test-sim.sh
stage planted scripts/test-planted.sh
stage soak scripts/test-soak.sh
stage freestanding scripts/freestanding.sh
stage package scripts/test-package.sh
stage man scripts/man.sh
stage vm scripts/test-vm.sh
stage benchmarks scripts/bench.sh --quick
stage demo env DEMO_MIB=64 scripts/demo.sh
end_stages
