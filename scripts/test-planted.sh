#!/usr/bin/env bash
# Plants each bug in core in turn. The simulator's swarm must find each of them (docs/testing.md). One build has all bugs, and chooses one
# at run time. It has its own target directory, since --cfg would rebuild everything each time.
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
