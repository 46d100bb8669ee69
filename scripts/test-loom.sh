#!/usr/bin/env bash
# Runs the loom models: every interleaving of the shipped types over a fabric of loom's atomics, within bounded preemptions. They have
# their own target directory, since --cfg loom would rebuild everything each time.
. "$(dirname "$0")/lib.sh"

need_rust
begin_stages
target=$(target_dir)
stage loom-models env \
    RUSTFLAGS="${RUSTFLAGS:-} --cfg loom" \
    CARGO_TARGET_DIR="$target/loom" \
    cargo test --locked --profile checks -p superpipe-testkit --test loom
end_stages
