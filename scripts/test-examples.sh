#!/usr/bin/env bash
# Runs examples/*.rs; each checks itself and ends by itself.
. "$(dirname "$0")/lib.sh"

need_rust
begin_stages
target=$(target_dir)
stage build-examples cargo build --locked --profile checks -p superpipe --examples
for source in examples/*.rs; do
    [[ -e $source ]] || die "examples/ holds no example"
    name=$(basename "$source" .rs)
    stage "example $name" timeout 120 "$target/checks/examples/$name" </dev/null
done
end_stages
