#!/usr/bin/env bash
# The soak in an optimized build: two processes over the std API and shared memory, the sender stopped and continued at random
# (docs/testing.md). It runs for 45 s; arguments are its own: --seconds, --seed, --round, --help.
. "$(dirname "$0")/lib.sh"

need_rust
begin_stages
target=$(target_dir)
stage soak-build cargo build --locked --profile checks -p superpipe-soak
stage soak "$target/checks/superpipe-soak" "$@"
end_stages
