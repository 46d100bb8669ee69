#!/usr/bin/env bash
# cargo test: the library and the core with debug assertions and overflow checks on, the tools as they ship, since
# their tests move gigabytes through real processes.
. "$(dirname "$0")/lib.sh"

need_rust
begin_stages
stage unit-property-doc cargo test --locked --workspace --exclude superpipe-tools
stage two-process cargo test --locked --release -p superpipe-tools
end_stages
