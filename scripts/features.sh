#!/usr/bin/env bash
# Prints what "every feature alone" means, from cargo's own metadata: a line "PACKAGE FEATURE" for each feature of each
# package, and a line "PACKAGE" for each package whose default is not already to have none.
. "$(dirname "$0")/lib.sh"

# cargo writes a package as {"name":.., .. "targets":[..],"features":{..},"manifest_path":..}
packages=$(cargo metadata --locked --no-deps --format-version 1 |
    grep -o '"features":{[^{}]*},"manifest_path":"[^"]*"') || die "cannot read cargo's metadata"

members=$(cargo metadata --locked --no-deps --format-version 1 |
    grep -o '"workspace_members":\[[^]]*\]' | grep -o '"path+' | wc -l)
[[ $(wc -l <<<"$packages") -eq $members ]] || die "cargo's metadata names $members packages; not all were understood"

while read -r package; do
    manifest=$(sed -E 's/.*"manifest_path":"([^"]*)"/\1/' <<<"$package")
    name=$(sed -nE '/^\[package\]/,$ s/^name = "([^"]+)"/\1/p' "$manifest" | head -n 1)
    features=$(sed -E 's/^"features":\{(.*)\},"manifest_path".*/\1/' <<<"$package" |
        grep -oE '"[^"]+":\[' | tr -d '":[' | grep -vx default || true)
    if grep -q '"default":\["' <<<"$package"; then
        say "$name"
    fi
    for feature in $features; do
        say "$name $feature"
    done
done <<<"$packages"
