#!/usr/bin/env bash
# cargo test of everything but the tools: unit, property, allocation and doc tests, with debug assertions and overflow checks on.
. "$(dirname "$0")/lib.sh"

need_rust
begin_stages
stage unit-property-doc cargo test "${tested[@]}"
end_stages
