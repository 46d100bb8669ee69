#!/usr/bin/env bash
# Measures superpipe over Linux's software RDMA drivers beside perftest and UCX, in interleaved rounds in one guest, then with packets
# lost between two guests. Writes docs/benchmarks/rdma.jsonl and docs/benchmarks.md. Takes ten minutes on an idle machine.
#
#   scripts/bench-vm.sh [ROUNDS]        default 5; --render only makes the page again from the figures
. "$(dirname "$0")/lib.sh"

rounds=${1:-5}
target=$(target_dir)

render() {
    "$target/release/benchmarks" render --dir docs
    say "the report is docs/benchmarks.md"
}

# Fetches Debian's UCX into the guests' cache, without installing it, and prints its directory; nothing if it cannot be fetched.
fetch_ucx() {
    local version directory
    version=$(apt-cache policy ucx-utils | sed -nE 's/^ +Candidate: //p')
    [[ -n $version && $version != '(none)' ]] || return 0
    directory=${SUPERPIPE_VM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/superpipe/vm}/ucx-$version
    if [[ ! -x $directory/usr/bin/ucx_perftest ]]; then
        mkdir -p "$directory"
        (cd "$directory" && apt-get -o APT::Sandbox::User=root download -qq ucx-utils libucx0 >&2) || return 0
        for package in "$directory"/*.deb; do
            dpkg-deb --extract "$package" "$directory"
        done
        rm "$directory"/*.deb
    fi
    say "$directory/usr"
}

# fact NAME VALUE
fact() { printf '{"fact":["%s","%s"]}\n' "$1" "${2//\"/\'}" >>"$FIGURES"; }

# contestant KIND ID
contestant() { printf '{"contestant":{"id":"%s","title":"%s","kind":"%s"}}\n' "$2" "$2" "$1" >>"$FIGURES"; }

facts() {
    local versions mode
    fact date "$(date -u '+%Y-%m-%d %H:%M UTC')"
    fact superpipe "$(sed -nE 's/^version = "(.*)"/\1/p' Cargo.toml | head -n 1), commit $(git rev-parse --short=12 HEAD)"
    fact rounds "$rounds"
    versions=$(vm/prepare)
    for name in kernel siw qemu-system-x86 ibverbs-providers perftest; do
        fact "$name" "$(sed -nE "s/^$name +//p" <<<"$versions")"
    done
    [[ -z $UCX ]] || fact UCX "Debian's ucx-utils $(basename "$(dirname "$UCX")" | sed s/^ucx-//), UCX_TLS=rc_verbs,ud_verbs,self UCX_NET_DEVICES=rxe0:1 UCX_IB_GID_INDEX=2"
    fact processor "$(sed -nE 's/^model name\s*: //p' /proc/cpuinfo | head -n 1), emulated by QEMU; two in the guest"
    contestant limit ib_write_bw
    contestant limit ib_write_lat
    for mode in notify flag checked-flag registered; do
        contestant superpipe "superpipe, $mode"
    done
    contestant peer UCX
    contestant aside memcpy
}

# guest OPTION...: boots with the environment of the scripts in vm/bench
guest() {
    vm/run --timeout "$((300 + rounds * 300))" --share "$share" --env ROUNDS="$rounds" --env FIGURES --env SUPERPIPE_BIN --env UCX --env RAW_ONLY "$@"
}

need_rust
if [[ $rounds == --render ]]; then
    cargo build --locked --release -p superpipe-bench --bin benchmarks
    render
    exit
fi
vm/prepare >/dev/null
cargo build --locked --release -p superpipe-tools -p superpipe-bench --bins
share=$(mktemp -d)
trap 'rm -rf "$share"' EXIT
export FIGURES=$share/figures SUPERPIPE_BIN=$target/release UCX
UCX=$(fetch_ucx)
[[ -n $UCX ]] || say "ucx-utils cannot be fetched: UCX is left out"
facts
guest -- vm/bench/one
guest --two -- vm/bench/two vm/bench/two
# only complete measurements replace older ones
"$target/release/benchmarks" collect "$share/figures" --dir docs
render
