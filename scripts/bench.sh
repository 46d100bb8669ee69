#!/usr/bin/env bash
# Measures superpipe beside the raw limits of this machine, in interleaved rounds, and writes a report. Passes its arguments to
# the program: --only small,steps; --rounds 9; --cores 2,3. With --quick it only shows that everything works.
. "$(dirname "$0")/lib.sh"

need_rust
target=$(target_dir)
profile=release programs=$target/release
if [[ " $* " == *" --quick "* ]]; then
    profile=test programs=$target/debug
fi
cargo build --locked --profile "$profile" -p superpipe-bench -p superpipe-tools --bins
"$programs/benchmarks" run --dir "$target/benchmarks" "$@"
"$programs/benchmarks" render --dir "$target/benchmarks" --unexplained
say "the report is $target/benchmarks/benchmarks.md"
