#!/usr/bin/env bash
# Measures pollers, many peers, loans and tokio, each beside what it is compared with, and writes what the programs print, with the distance of the
# cores before and after each, to target/benchmarks/many.md. With nothing else running. Options:
#
#   --rounds N       of each program (9)
#   --idle-s N       seconds for which 1,000 connections are idle (60)
#   --iceoryx2       loans beside the crate iceoryx2, which `scripts/peers.sh iceoryx2` builds
#   --vm             one poller with connections of two hosts, over rxe and siw in two guests of vm/ (18 minutes more)
#   --vm-rounds N    the same with N rounds (3): each takes six minutes, most of them to make and end connections
#   --vm-only        that part alone: the rest of the page stays, as that part does without --vm
#   --docs           write docs/benchmarks/many.md
. "$(dirname "$0")/lib.sh"

rounds=9 vm_rounds=3 idle_s=60 iceoryx2=() vm='' page=
while [[ $# -gt 0 ]]; do
    case $1 in
    --rounds | --vm-rounds | --idle-s)
        [[ $1 != --vm-rounds ]] || vm=${vm:-1}
        [[ ${2:-} =~ ^[1-9][0-9]{0,4}$ ]] || die "$1 takes a number from 1 to 99999, and not ${2:-nothing}"
        declare "$(tr - _ <<<"${1#--}")=$2"
        shift 2
        ;;
    --iceoryx2) iceoryx2=(--iceoryx2) && shift ;;
    --vm) vm=1 && shift ;;
    --vm-only) vm=only && shift ;;
    --docs) page=docs/benchmarks/many.md && shift ;;
    *) die "$1 is no option; the head of scripts/bench-many.sh lists them" ;;
    esac
done

need_rust
target=$(target_dir)
programs=$target/release
if [[ ${#iceoryx2[@]} -gt 0 ]]; then
    iceoryx2+=("$target/peers/bin/iceoryx2")
    [[ -x ${iceoryx2[1]} ]] || die "${iceoryx2[1]} is missing; type: scripts/peers.sh iceoryx2"
fi
page=${page:-$target/benchmarks/many.md}
if [[ $vm == only ]]; then
    cargo build --locked --release -p superpipe-tools --bin rperf
    [[ -s $page ]] || die "$page is missing, of which this is a part: leave --vm-only out"
else
    cargo build --locked --release -p superpipe-bench -p superpipe-tools --bin polling --bin many --bin loans --bin tokio_ping --bin rperf
fi
mkdir -p "${page%/*}"

distance() { "$programs/rperf" --distance | awk 'NR == 2 { print $4 ", 8 B cross in " $3 " ns" }'; }

# measured PROGRAM QUESTION OPTION...: its part of the page
measured() {
    local program=$1 question=$2 before text
    shift 2
    say "$program $*" >&2
    before=$(distance)
    text=$("$programs/$program" --rounds "$rounds" "$@")
    # shellcheck disable=SC2016 # backquotes of the page
    printf '\n## %s\n\n%s\n\n`target/release/%s`\n\nThe cores: %s; afterwards %s.\n\n```text\n%s\n```\n' \
        "$program" "$question" "$program --rounds $rounds${*:+ ${*//"$root/"/}}" "$before" "$(distance)" "$text"
}

# over_rdma: the part of the guests
over_rdma() {
    local versions text
    say vm/bench/many >&2
    versions=$(vm/prepare | awk '$1 ~ /^(kernel|siw|qemu-system-x86)$/ { printf "%s%s %s", comma, $1, $2; comma = ", " }')
    text=$(ROUNDS=$vm_rounds SUPERPIPE_BIN=$programs vm/run --two --timeout $((200 + vm_rounds * 500)) --env ROUNDS --env SUPERPIPE_BIN vm/bench/many vm/bench/many |
        sed -n 's/^host 2: //p')
    [[ $text == *siw* ]] || die "vm/bench/many has printed no figures: $text"
    cat <<END

## Over RDMA

One poller with connections of two hosts: two guests with two emulated CPUs each, over the kernel's rxe and siw ($versions), on $(sed -nE 's/^model name\s*: //p' /proc/cpuinfo | head -n 1). All of it is software, so only
ratios inside a round count. \`vm/bench/many\`, $vm_rounds rounds at commit $(git rev-parse --short HEAD): messages a second of one connection; then what 32 connections of one host have together, 16 of each
of two hosts, and one beside 31 that are idle, each over one alone. With \`--ack-timeout 2s\` (vm/README.md, "What rxe does wrong"). Of \`latency\` they are round trips.

\`\`\`text
$text
\`\`\`
END
}

over_shared_memory() {
    cat <<'EOF'
# Many peers, loans and tokio

What `scripts/bench-many.sh` printed, over shared memory, two processes on a core each: medians of the rounds, with the lowest and the highest. Each
round measures each kind in turn, and ratios are formed inside a round. Nothing of it is written by hand.
EOF
    printf '\n%s, %s; superpipe at commit %s%s; %s; load average before %s.\n' \
        "$(sed -nE 's/^model name\s*: //p' /proc/cpuinfo | head -n 1)" "$(uname -r)" "$(git rev-parse --short HEAD)" \
        "$([[ -z $(git status --porcelain -uno) ]] || echo ', changed')" "$(rustc --version)" "$(cut -d ' ' -f 1 /proc/loadavg)"
    measured polling "Served by a poller, over served by blocking calls; one active connection among 1,000 idle ones, over one alone; then what these cost while all is idle. Wanted: 8 B at most 1.15, and 1.2; 1 MiB at most 1.05; less than 0.1 % of a core." \
        --idle-s "$idle_s"
    measured many "Connections that send at once to one poller; one poller that sends over many; many connects at once; a connect beside clients that say nothing. Wanted: all of 64 senders at least 0.6 of one, the least of them at least half of its fair share; 1,000 connections at least half of one's messages."
    measured loans "Messages that are written and read in place, as a stream. Wanted: slices at least 0.85 of the bare ring." "${iceoryx2[@]}"
    measured tokio_ping "Two programs that use tokio. Wanted: with the bounded spin ahead of both sockets at each size."
}

made=$(mktemp)
trap 'rm -f "$made"' EXIT
if [[ $vm == only ]]; then
    # what stands before that part, without the empty line
    sed '/^## Over RDMA$/,$d' "$page" | sed '${/^$/d}' >"$made"
else
    over_shared_memory >"$made"
fi
if [[ -n $vm ]]; then
    over_rdma >>"$made"
elif grep -qx '## Over RDMA' "$page" 2>/dev/null; then
    { echo && sed -n '/^## Over RDMA$/,$p' "$page"; } >>"$made"
fi
mv "$made" "$page"
chmod 644 "$page"
say "the page is $page"
