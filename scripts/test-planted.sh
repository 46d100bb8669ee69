#!/usr/bin/env bash
# Plants each bug in turn. The simulator's swarm must find each of those in core, the explorer the one of a fabric, those of lent memory and those
# of split messages (docs/testing.md). One build has all bugs, and chooses one
# at run time. It has its own target directory, since --cfg would rebuild everything each time.
. "$(dirname "$0")/lib.sh"

need_rust
begin_stages
target=$(target_dir)/planted
stage planted-build env \
    RUSTFLAGS="${RUSTFLAGS:-} --cfg superpipe_planted" \
    CARGO_TARGET_DIR="$target" \
    cargo build --locked --profile checks -p superpipe-sim
found=$(mktemp)
trap 'rm -f "$found" ${stages_are_mine:+"$SUPERPIPE_STAGES"}' EXIT

planted_bugs() { "$target/checks/superpipe-sim" planted | tee "$found"; }

# Bugs and runs of the table in docs/testing.md are those that were printed.
table_is_true() {
    diff <(sed -nE 's/^\| `([A-Z][A-Za-z]+)` \|.*\| ([0-9]+) \|[^|]*\|$/\1 \2/p' docs/testing.md) \
        <(sed -nE 's/^([A-Z][A-Za-z]+) +([0-9]+)  .*/\1 \2/p' "$found") ||
        die "< is in docs/testing.md, under Planted bugs, and > was found"
}

stage planted-bugs planted_bugs
stage planted-table table_is_true
explored_in_lent_memory() {
    local bug
    for bug in BorrowEndedEarly RemoteEndNotNotified RemoteEndNotAwaited ClaimOfAnother; do
        "$target/checks/superpipe-sim" explore --planted --bug "$bug" "lending: cancel, 1 message" || return 1
    done
}

stage planted-explored "$target/checks/superpipe-sim" explore --planted --bug EpochUnzeroed "of another layout"
stage planted-lent explored_in_lent_memory

# The small cases of offers find each bug of split messages by themselves.
split_bugs() {
    local bug
    for bug in StaleOfferTaken OfferOutlives TailBeforeFin FinBeforeTail WithdrawnWhileOffered; do
        "$target/checks/superpipe-sim" explore --planted --bug "$bug" "direct, offering" || return
    done
}

stage planted-split split_bugs
end_stages
