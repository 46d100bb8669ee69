#!/usr/bin/env bash
# cargo test of the tools as they ship, since their tests move gigabytes through real processes.
. "$(dirname "$0")/lib.sh"

need_rust
begin_stages
stage two-process cargo test --locked --release -p superpipe-tools
end_stages
