#!/usr/bin/env bash
# Man pages and shell completions, written by the tools themselves from what --help prints.
. "$(dirname "$0")/lib.sh"

# write FILE TOOL KIND
write() {
    "$target/release/$2" --generate "$3" >"$1"
    [[ -s $1 ]] || die "$2 --generate $3 printed nothing"
    say "$1"
}

need_rust
target=$(target_dir)
cargo build --locked --release -p superpipe-tools
mkdir -p "$target/man" "$target/completions"
for source in bins/src/bin/*; do
    [[ -e $source ]] || die "bins/src/bin holds no tool"
    tool=$(basename "$source" .rs)
    write "$target/man/$tool.1" "$tool" man
    write "$target/completions/$tool.bash" "$tool" bash
    write "$target/completions/_$tool" "$tool" zsh
    write "$target/completions/$tool.fish" "$tool" fish
done
