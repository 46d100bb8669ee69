#!/usr/bin/env bash
# Measures superpipe over Linux's software RDMA drivers beside perftest and UCX, in interleaved rounds in one guest, then with packets
# lost between two, and writes docs/benchmarks/rdma.jsonl and with it docs/benchmarks.md. Nothing else should run; ten minutes.
#
#   scripts/bench-vm.sh [ROUNDS]        5 unless told; --render makes the page anew from the figures
. "$(dirname "$0")/lib.sh"

rounds=${1:-5}
figures=$root/docs/benchmarks/rdma.jsonl
target=$(target_dir)

render() {
    cargo build --locked --release -p superpipe-bench --bin benchmarks
    "$target/release/benchmarks" render --dir docs
    say "the report is docs/benchmarks.md"
}

# UCX as Debian has it, in the guest's cache and not installed here; printed is where. Nothing where it cannot be fetched.
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
fact() { printf '{"event":"fact","name":"%s","value":"%s"}\n' "$1" "${2//\"/\'}" >>"$FIGURES"; }

facts() {
    local versions
    fact date "$(date -u '+%Y-%m-%d %H:%M UTC')"
    fact superpipe "$(sed -nE 's/^version = "(.*)"/\1/p' Cargo.toml | head -n 1), commit $(git rev-parse --short=12 HEAD)"
    fact rounds "$rounds"
    versions=$(vm/prepare)
    for name in kernel siw qemu-system-x86 ibverbs-providers perftest; do
        fact "$name" "$(sed -nE "s/^$name +//p" <<<"$versions")"
    done
    [[ -z $UCX ]] || fact UCX "Debian's ucx-utils $(basename "$(dirname "$UCX")" | sed s/^ucx-//), UCX_TLS=rc_verbs,ud_verbs,self UCX_NET_DEVICES=rxe0:1 UCX_IB_GID_INDEX=2"
    fact processor "$(sed -nE 's/^model name\s*: //p' /proc/cpuinfo | head -n 1), emulated by QEMU; two in the guest"
}

# guest OPTION...: with what the scripts of vm/bench need
guest() {
    vm/run --timeout "$((300 + rounds * 300))" --share "$share" --env ROUNDS="$rounds" --env FIGURES --env SUPERPIPE_BIN --env UCX --env RAW_ONLY "$@"
}

need_rust
[[ $rounds != --render ]] || { render && exit; }
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
# only whole measurements replace older ones
cp "$share/figures" "$figures"
render
