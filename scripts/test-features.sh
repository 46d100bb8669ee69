#!/usr/bin/env bash
# Every feature of every package, alone: unit tests. All tests run with all features in test-cargo.sh; lint checks each feature alone as a user
# would get it, and all tests without any feature.
. "$(dirname "$0")/lib.sh"

# is_run PACKAGE FEATURE: true where the unit tests run. Those of superpipe run with all features in test-cargo.sh, and here without any. A
# feature alone is what lies between, and is only built: by clippy in lint, or here where clippy is missing.
is_run() { [[ $1 != superpipe || -z $2 ]]; }
is_checked() { [[ -n $2 ]] && cargo clippy --version >/dev/null 2>&1; }

one_feature() {
    local package=$1 feature=${2:-}
    local flags=(--locked -p "$package" --no-default-features ${feature:+--features "$feature"})
    # without the dev-dependencies, which can enable a feature that is missing here
    is_checked "$package" "$feature" || cargo check "${flags[@]}"
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
    is_run "$package" "$feature" || ! is_checked "$package" "$feature" || continue
    # cargo must not read the list
    stage "$package with ${feature:-no feature}" one_feature "$package" "$feature" </dev/null
done <<<"$features"
# as a user has it by default, without the recorder
stage "superpipe's allocations by default" cargo test --locked --profile dev -p superpipe --test no_alloc
end_stages
