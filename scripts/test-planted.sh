#!/usr/bin/env bash
# Plants each bug in turn. The simulator's swarm must find each of those in core, the explorer the one of a fabric, those of lent memory and those
# of split messages (docs/testing.md). One build has all bugs, and chooses one at run time. The program has a directory of its own, so that nobody
# runs it by mistake. Packages of others are the ones that other stages have built.
. "$(dirname "$0")/lib.sh"

need_rust
begin_stages
built=$(target_dir)
target=$built/planted
stage planted-build env RUSTC_WORKSPACE_WRAPPER="$root/scripts/rustc/planted" CARGO_TARGET_DIR="$target" CARGO_BUILD_BUILD_DIR="$built" \
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

# explored CASES BUG...: the small cases of this name find each of these bugs by themselves
explored() {
    local cases=$1 bug
    shift
    for bug; do
        "$target/checks/superpipe-sim" explore --planted --bug "$bug" "$cases" || return
    done
}

# chosen BUG...: the check of distances finds each of these bugs
chosen() {
    local bug
    for bug; do
        "$target/checks/superpipe-sim" distance --bug "$bug" || return
    done
}

stage planted-bugs planted_bugs
stage planted-table table_is_true
stage planted-explored explored "of another layout" EpochUnzeroed
stage planted-lent explored "lending: cancel, 1 message" BorrowEndedEarly RemoteEndNotNotified RemoteEndNotAwaited ClaimOfAnother
stage planted-given-up explored "receiver aborts and gives up" GrantForgotten
stage planted-split explored "direct, offering" StaleOfferTaken OfferOutlives TailBeforeFin FinBeforeTail WithdrawnWhileOffered
stage planted-laps explored "windows" LapBeforeForgotten RefillWithoutRoom
stage planted-groups explored "groups of 2" GroupFlaggedEarly NextGroupTaken
stage planted-chosen chosen OutlierTrusted NeverTriesAgain ChoiceFlaps WindowNeverTriesAgain WindowFlaps
stage planted-prepared explored "preparing" PreparedNotCounted
stage planted-planner "$target/checks/superpipe-sim" planner --machines 2 --bug PlannerTakesWorst
end_stages
