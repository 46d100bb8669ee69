#!/usr/bin/env bash
# The soaks in an optimized build, over the std API and shared memory (docs/testing.md): for 45 s two processes, the sender stopped and
# continued at random; for a minute 64 connections within a budget of 16 MiB; for 40 s connections that come and go, of processes that are
# stopped and killed. With arguments one soak alone: --seconds, --seed, --round, --help; crowd --help; visitors --help.
. "$(dirname "$0")/lib.sh"

need_rust
begin_stages
target=$(target_dir)
stage soak-build cargo build --locked --profile checks -p superpipe-soak
if [[ $# -gt 0 ]]; then
    stage soak "$target/checks/superpipe-soak" "$@"
else
    stage soak "$target/checks/superpipe-soak"
    stage crowd "$target/checks/superpipe-soak" crowd
    stage visitors "$target/checks/superpipe-soak" visitors
fi
end_stages
