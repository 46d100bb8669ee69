#!/usr/bin/env bash
# Everything that CI runs. Each stage is a script of its own; the first that fails ends the run with its name. The tools and the VM wait
# for other processes most of the time, so they run beside the stages that compile and compute. Stages that measure run alone.
. "$(dirname "$0")/lib.sh"

tools_and_vm() {
    scripts/test-tools.sh
    scripts/test-vm.sh
}

say "tests superpipe: lint, cargo test, tools, VM, each feature alone, examples, loom models, simulator, planted bugs, packages, freestanding core, man pages, soak, benchmarks, demo"
need_rust
begin_stages
# Everything is built once: what makes a second build fast costs the first one a fifth of its time.
export CARGO_INCREMENTAL=${CARGO_INCREMENTAL:-0}
lane tools-and-vm tools_and_vm
stage lint scripts/lint.sh
stage test scripts/test-cargo.sh
stage features scripts/test-features.sh
stage examples scripts/test-examples.sh
stage loom scripts/test-loom.sh
stage sim scripts/test-sim.sh
stage planted scripts/test-planted.sh
stage freestanding scripts/freestanding.sh
stage package scripts/test-package.sh
join_lane
stage man scripts/man.sh
stage soak scripts/test-soak.sh
stage benchmarks scripts/bench.sh --quick
stage demo env DEMO_MIB=64 scripts/demo.sh
end_stages
