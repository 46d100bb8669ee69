#!/usr/bin/env bash
# Every feature of every package, alone, built as a user would get it; then unit tests. All tests run with all features in test-cargo.sh, and
# lint builds all tests without any feature.
. "$(dirname "$0")/lib.sh"

# is_run PACKAGE FEATURE: true where the unit tests run. Those of superpipe run with all features in test-cargo.sh, and here without any. A
# feature alone is what lies between, and is only built.
is_run() { [[ $1 != superpipe || -z $2 ]]; }

one_feature() {
    local package=$1 feature=${2:-}
    local flags=(--locked -p "$package" --no-default-features ${feature:+--features "$feature"})
    # without the dev-dependencies, which can enable a feature that this one lacks
    cargo check "${flags[@]}"
    if is_run "$package" "$feature"; then
        # not optimized: to build it takes longer than to run it
        cargo test --profile dev "${flags[@]}" --lib
    fi
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
