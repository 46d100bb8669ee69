#!/usr/bin/env bash
# Bugs planted in core, one after the other: the simulator's swarm must find each of them (docs/testing.md).
# They are a build of their own, with a target directory of its own, chosen among at run time.
. "$(dirname "$0")/lib.sh"

need_rust
begin_stages
target=$(target_dir)/planted
stage planted-build env \
    RUSTFLAGS="${RUSTFLAGS:-} --cfg superpipe_planted" \
    CARGO_TARGET_DIR="$target" \
    cargo build --locked --profile checks -p superpipe-sim
stage planted-bugs "$target/checks/superpipe-sim" planted
end_stages
