#!/usr/bin/env bash
# The core with no std, no allocator and no libc: a static ELF that moves messages of all kinds through an in-memory
# fabric and exits 0, in less than 64 KiB of text.
. "$(dirname "$0")/lib.sh"

text_max=65536

build() {
    # from its own directory, where cargo finds its link arguments
    (cd freestanding && cargo build --locked --release --target-dir "$target/freestanding" \
        --message-format json-render-diagnostics) >"$target/freestanding.json"
}

run() {
    timeout 60 "$elf"
    say "exits 0"
}

# u64 FILE OFFSET BYTES: a little-endian number of the file
number() { od -An -v -j "$2" -N "$3" -t "u$3" --endian=little "$1" | tr -d ' '; }

# The text of size(1): all sections that are loaded and never written. Without binutils, from the section headers.
text_size() {
    local at entry count index header flags bytes code=0 text=0
    [[ $(head -c 4 "$elf" | od -An -c | tr -d ' ') == '177ELF' ]] || die "$elf is no ELF file"
    at=$(number "$elf" 40 8) entry=$(number "$elf" 58 2) count=$(number "$elf" 60 2)
    [[ $at -gt 0 && $count -gt 0 ]] || die "$elf has no section headers to measure"
    for ((index = 0; index < count; index++)); do
        header=$((at + index * entry))
        flags=$(number "$elf" $((header + 8)) 8) bytes=$(number "$elf" $((header + 32)) 8)
        # SHF_WRITE 1, SHF_ALLOC 2, SHF_EXECINSTR 4
        if (((flags & 3) == 2)); then text=$((text + bytes)); fi
        if (((flags & 4) == 4)); then code=$((code + bytes)); fi
    done
    [[ $code -gt 0 ]] || die "$elf holds no code"
    say "freestanding core: $text bytes of text ($code code, the rest constants); the limit is $text_max"
    [[ $text -lt $text_max ]] || die "$text bytes of text are too many: the limit is $text_max"
}

need_rust
begin_stages
target=$(target_dir)
mkdir -p "$target"
stage build-freestanding build
elf=$(sed -nE 's/.*"executable":"([^"]+)".*/\1/p' "$target/freestanding.json" | tail -n 1)
[[ -x $elf ]] || die "freestanding/ built no executable"
stage run-freestanding run
stage text-size text_size
end_stages
