#!/usr/bin/env bash
# The simulator in a release build: a hundred thousand runs with faults, no state of the protocol left out, and every
# interleaving of small cases (docs/testing.md). It has a target directory of its own, since it is built without LTO.
. "$(dirname "$0")/lib.sh"

need_rust
begin_stages
target=$(target_dir)/sim
export CARGO_TARGET_DIR=$target CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16
stage sim-build cargo build --locked --release -p superpipe-sim
stage sim-golden cargo test --locked --release -p superpipe-sim --test golden
stage sim-swarm "$target/release/superpipe-sim" swarm --runs 100000 --every-state
stage sim-explore "$target/release/superpipe-sim" explore
end_stages
