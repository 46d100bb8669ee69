#!/usr/bin/env bash
# Runs the loom models: every interleaving of the shipped types over a fabric of loom's atomics, within bounded preemptions. Only packages of this
# workspace are built with --cfg loom: those of others are the ones that other stages have built.
. "$(dirname "$0")/lib.sh"

need_rust
begin_stages
stage loom-models env RUSTC_WORKSPACE_WRAPPER="$root/scripts/rustc/loom" \
    cargo test --locked --profile checks -p superpipe-testkit --test loom
end_stages
