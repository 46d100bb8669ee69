#!/bin/bash
# Prints the instructions of a message, function by function, and checks that none that every message executes is a system
# call, a lock, a division, a clock read or a bus-locked instruction, or a call of the allocator.
#
#   check-hot-path.sh PROGRAM [BYTES]      PROGRAM is hot_path, built with --release
#
# callgrind counts each executed instruction of two runs, one with 1000 more round trips. Every message executes those that
# were executed at least 1000 times more. Only instructions of sending and receiving count, so that the waits of
# connecting do not. objdump decodes them. Needs valgrind and binutils.
set -euo pipefail
program=${1:?usage: check-hot-path.sh PROGRAM [BYTES]}
bytes=${2:-8}
trips=1000
room=$(mktemp -d)
trap 'rm -rf "$room"' EXIT

count() { # ROUND_TRIPS NAME: writes NAME.ins, lines of: address count
    valgrind --tool=callgrind --dump-instr=yes --dump-line=no --compress-pos=no --compress-strings=no \
        --collect-atstart=no --toggle-collect='hot_path::send_hot*' --toggle-collect='hot_path::recv_hot*' \
        --callgrind-out-file="$room/$2.out" "$program" --bytes "$bytes" --round-trips "$1" 2>"$room/$2.log" ||
        { cat "$room/$2.log" >&2; exit 1; }
    # Lines after "calls=" are inclusive costs of the callee. Each object is named once before its functions.
    awk '/^ob=/ { object = substr($0, 4) }
         /^calls=/ { skip = 1; next }
         /^0x/ { if (skip) skip = 0; else print object, $1, $NF }' "$room/$2.out" |
        awk '{ sum[$1 " " $2] += $3 } END { for (at in sum) print at, sum[at] }' >"$room/$2.ins"
}

count $trips less
count $((2 * trips)) more

# Instructions that each message executes: object, address, and count per round trip.
awk -v trips=$trips 'NR == FNR { less[$1 " " $2] = $3; next }
    { extra = $3 - less[$1 " " $2]; if (extra >= trips) print $1, $2, extra / trips }' \
    "$room/less.ins" "$room/more.ins" >"$room/hot"
awk -v trips=$trips 'NR == FNR { less += $3; next } { more += $3 }
    END { printf "%.1f instructions per message, sent and received; of every message:\n", (more - less) / trips / 2 }' \
    "$room/less.ins" "$room/more.ins"

status=0
while read -r object; do
    if [ ! -r "$object" ]; then
        echo "$object: not a file"
        status=1
        continue
    fi
    objdump -d -C --no-show-raw-insn "$object" >"$room/code"
    # A position-independent program runs at other addresses than those in its file; the offset is found by trial.
    awk -v object="$object" '
        function hex(text,   i, value) {
            text = tolower(text); sub(/^0x/, "", text); value = 0
            for (i = 1; i <= length(text); i++) value = value * 16 + index("0123456789abcdef", substr(text, i, 1)) - 1
            return value
        }
        NR == FNR { if ($1 == object) { hot[hex($2)] = $3; hots++ } next }
        /^[0-9a-f]+ <.*>:$/ { name = $0; sub(/^[0-9a-f]+ </, "", name); sub(/>:$/, "", name); next }
        /^ *[0-9a-f]+:\t/ {
            at = $1; sub(/:$/, "", at); at = hex(at)
            text = $0; sub(/^[^\t]*\t/, "", text)
            code[at] = text; in_name[at] = name
        }
        END {
            best = -1
            for (at in hot) { first = at + 0; break }
            # Mapping keeps the offset in a page.
            for (candidate in code) {
                base = first - candidate
                if (base < 0 || base % 4096 != 0 || base in tried) continue
                tried[base] = 1
                found = 0
                for (at in hot) if ((at - base) in code) found++
                if (found > best) { best = found; chosen = base }
                if (found == hots) break
            }
            if (best != hots) { printf "%s: %d of %d instructions not found\n", object, hots - best, hots; exit 1 }
            bad = 0
            for (at in hot) {
                text = code[at - chosen]; where = in_name[at - chosen]
                per[where] += hot[at] / 2
                forbidden = text ~ /^(lock|syscall|sysenter|int |rdtsc|cpuid|mfence|div|idiv|fdiv)/ ||
                    (text ~ /^xchg/ && text ~ /\(/) ||
                    text ~ /(call|jmp).*<(malloc|calloc|realloc|free|[^>]*__rust_|clock_gettime|pthread_)/
                if (forbidden) { printf "FORBIDDEN in %s, %.1f times per message: %s\n", where, hot[at] / 2, text; bad = 1 }
            }
            for (where in per) printf "%10.1f  %s\n", per[where], where | "sort -rn"
            close("sort -rn")
            exit bad
        }' "$room/hot" "$room/code" || status=1
done < <(cut -d' ' -f1 "$room/hot" | sort -u)
[ $status = 0 ] && echo "no system call, lock, allocation, division, clock read or bus-locked instruction"
exit $status
