#!/usr/bin/env bash
# The simulator in an optimized build: a hundred thousand runs with faults, no state of the protocol left out, and every
# interleaving of small cases (docs/testing.md).
. "$(dirname "$0")/lib.sh"

need_rust
begin_stages
simulator=$(target_dir)/checks/superpipe-sim
stage sim-build cargo build --locked --profile checks -p superpipe-sim
stage sim-golden cargo test --locked --profile checks -p superpipe-sim --test golden
stage sim-swarm "$simulator" swarm --runs 100000 --every-state
stage sim-explore "$simulator" explore
end_stages
