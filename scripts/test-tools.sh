#!/usr/bin/env bash
# cargo test of the tools as they ship, since their tests move gigabytes through real processes. The tests themselves are built in less time than
# what ships.
. "$(dirname "$0")/lib.sh"

need_rust
begin_stages
built=$(mktemp)
trap 'rm -f "$built" ${stages_are_mine:+"$SUPERPIPE_STAGES"}' EXIT
tools() { cargo build --locked --release -p superpipe-tools --message-format json-render-diagnostics >"$built"; }
stage tools tools
# where cargo says that they are
rrecv=$(sed -nE 's/.*"name":"rrecv".*"executable":"([^"]+)".*/\1/p' "$built")
[[ -x $rrecv ]] || die "cargo has not said where it built rrecv"
# The tests wait for processes most of the time: on two cores, four at a time take two thirds of the time that two at a time do.
export RUST_TEST_THREADS=${RUST_TEST_THREADS:-4}
stage two-process env SUPERPIPE_TESTED="${rrecv%/*}" cargo test --locked --profile checks -p superpipe-tools
end_stages
