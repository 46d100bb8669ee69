#!/usr/bin/env bash
# Measures superpipe beside the raw limits of this machine, at each distance that its cores show, and writes a report. Passes its arguments to
# the program: --only small,steps; --rounds 5; --minutes 30; --cores 2,3. With --quick it only shows that everything works.
. "$(dirname "$0")/lib.sh"

need_rust
target=$(target_dir)
programs=$target/release
if [[ " $* " == *" --quick "* ]]; then
    # Figures do not matter: rperf and the rest as the other stages of make test have built them. The test `limits` runs the programs of bench,
    # so cargo builds them with it. It is no part of test-cargo.sh, where other stages run beside.
    programs=$target/debug
    cargo test "${tested[@]}" --test limits
    cargo build --locked --release -p superpipe-tools
    "$programs/idle" --quick
    "$programs/first_message" --quick
    "$programs/planned_ways" --quick
    "$programs/polling" --quick
    "$programs/many" --quick
    "$programs/tokio_ping" --quick
    "$programs/loans" --quick
    "$programs/limit_one_copy" --rounds 1 --seconds-per-config 0.0001 --sizes 1M --way ring,one,split,registered,trusted --probe
else
    cargo build --locked --release -p superpipe-bench -p superpipe-tools --bins
fi
"$programs/benchmarks" run --tools "$target/release" --dir "$target/benchmarks" "$@"
"$programs/benchmarks" render --dir "$target/benchmarks" --unexplained
say "the report is $target/benchmarks/benchmarks.md"
