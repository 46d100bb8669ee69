#!/usr/bin/env bash
# Packs each package as for publishing, and builds it from its packed files alone.
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
# cargo builds the packages against each other by a registry of its own below the target directory, and keeps by version
# what it unpacked from there and what it built: the packages of an earlier run would be used again, however much has
# changed since. So both are new each time.
forget_unpacked() {
    cargo metadata --no-deps --format-version 1 | grep -oE '"name":"superpipe[a-z-]*","version":"[^"]+"' |
        sed -E 's/"name":"([^"]+)","version":"([^"]+)"/\1-\2/' | while read -r package; do
        rm -rf "${CARGO_HOME:-$HOME/.cargo}"/registry/{src,cache}/*/"$package"{,.crate}
    done
}
target=$(target_dir)
mkdir -p "$target"
room=$(mktemp -d "$target/packages.XXXXXX")
trap 'rm -rf "$room"; forget_unpacked; [[ -z ${stages_are_mine:-} ]] || rm -f "$SUPERPIPE_STAGES"' EXIT
forget_unpacked
stage pack cargo package "${flags[@]}" --target-dir "$room"
end_stages
