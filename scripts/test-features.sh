#!/usr/bin/env bash
# Every feature of every package, alone: built as a user would get it, then its unit tests; without any feature all tests. The other
# tests run with all features in test-cargo.sh: what a feature adds does not need the others, as the build shows.
. "$(dirname "$0")/lib.sh"

one_feature() {
    local package=$1 feature=${2:-}
    local flags=(--locked -p "$package" --no-default-features ${feature:+--features "$feature"})
    # without the dev-dependencies, which can enable a feature that this one lacks
    cargo check "${flags[@]}"
    # not optimized: to build it takes longer than to run it
    cargo test --profile dev "${flags[@]}" ${feature:+--lib}
}

need_rust
begin_stages
features=$(scripts/features.sh)
while read -r package feature; do
    [[ -n $package ]] || continue
    # cargo must not read the list
    stage "$package with ${feature:-no feature}" one_feature "$package" "$feature" </dev/null
done <<<"$features"
end_stages
