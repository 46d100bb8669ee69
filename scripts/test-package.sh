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
# cargo builds the packages against each other by a registry of its own below target, and keeps what it unpacked from there
# by version: what an earlier run unpacked would be built again, however much has changed since.
while read -r name version; do
    rm -rf "${CARGO_HOME:-$HOME/.cargo}"/registry/{src,cache}/*/"$name-$version"{,.crate}
done < <(cargo metadata --no-deps --format-version 1 | grep -oE '"name":"superpipe[a-z-]*","version":"[^"]+"' |
    sed -E 's/"name":"([^"]+)","version":"([^"]+)"/\1 \2/')
stage pack cargo package "${flags[@]}"
end_stages
