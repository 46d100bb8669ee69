#!/usr/bin/env bash
# Runs the simulator in an optimized build: 100,000 runs with faults that cover every state of the protocol, and every interleaving of
# small cases, ten thousand idle connections of a poller, the choice of copy kernels under distances that change, the memory node of registered
# memory, planned messages (docs/testing.md), and the papers' tables (docs/papers.md).
. "$(dirname "$0")/lib.sh"

need_rust
begin_stages
simulator=$(target_dir)/checks/superpipe-sim
stage sim-build cargo build --locked --profile checks -p superpipe-sim
stage sim-golden cargo test --locked --profile checks -p superpipe-sim --test golden --test idle
stage sim-swarm "$simulator" swarm --runs 100000 --every-state
stage sim-polled "$simulator" polled --runs 1 --idle 10000
stage sim-explore "$simulator" explore
stage sim-distance "$simulator" distance
stage sim-nodes "$simulator" nodes
stage sim-planner "$simulator" planner
stage sim-paper "$simulator" paper --check docs/papers.md
end_stages
