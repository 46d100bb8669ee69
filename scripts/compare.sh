#!/usr/bin/env bash
# Measures superpipe beside the raw limits and its peers, at each distance that the cores show within 40 minutes, and writes docs/benchmarks.md, its
# plots and its figures. Passes its arguments to the program: --only cold,first measures these parts and keeps the others; --minutes 60.
. "$(dirname "$0")/lib.sh"

need_rust
scripts/peers.sh
target=$(target_dir)
cargo build --locked --release -p superpipe-bench -p superpipe-tools --bins
# iceoryx2 leaves a file with the same name after each run
trap 'rm -rf /dev/shm/superpipe_bench_*' EXIT
"$target/release/benchmarks" run --peers --minutes 40 --dir docs "$@"
"$target/release/benchmarks" render --dir docs
# no part of the report: docs/performance.md quotes it
"$target/release/loans" --iceoryx2 "$target/peers/bin/iceoryx2"
say "the report is docs/benchmarks.md"
