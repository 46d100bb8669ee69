#!/usr/bin/env bash
# Every feature of every package, alone: built as a user would get it, then its unit tests where it adds code that runs. All tests run
# with all features in test-cargo.sh, and lint builds all tests without any feature.
. "$(dirname "$0")/lib.sh"

# adds_code PACKAGE FEATURE: false for a feature of superpipe whose code is tested elsewhere. bindgen makes the bindings of
# superpipe-verbs, which is tested with its own feature of that name, and internals makes names public.
adds_code() { [[ $1 != superpipe || $2 != bindgen && $2 != internals ]]; }

one_feature() {
    local package=$1 feature=${2:-}
    local flags=(--locked -p "$package" --no-default-features ${feature:+--features "$feature"})
    # without the dev-dependencies, which can enable a feature that this one lacks
    cargo check "${flags[@]}"
    if adds_code "$package" "$feature"; then
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
