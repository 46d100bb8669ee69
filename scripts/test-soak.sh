#!/usr/bin/env bash
# The soaks in an optimized build, over the std API and shared memory (docs/testing.md): for 45 s two processes, the sender stopped and
# continued at random; for two minutes 64 connections within a budget of 16 MiB. With arguments one soak alone: --seconds, --seed, --round,
# --help; crowd --seconds, crowd --help.
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
fi
end_stages
