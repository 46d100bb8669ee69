#!/usr/bin/env bash
# Packs what would be published, and builds each package from its packed files alone.
. "$(dirname "$0")/lib.sh"

need_rust
begin_stages
flags=(--locked --workspace)
# the freestanding crate is no member of the workspace
for manifest in $(grep -lx 'publish = false' ./*/Cargo.toml | grep -vF ./freestanding/); do
    flags+=(--exclude "$(sed -nE 's/^name = "([^"]+)"/\1/p' "$manifest" | head -n 1)")
done
if ! cargo package "${flags[@]}" --list >/dev/null 2>&1; then
    say "the work tree has changes that are not committed: packed as it is"
    flags+=(--allow-dirty)
fi
stage pack cargo package "${flags[@]}"
end_stages
