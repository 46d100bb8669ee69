# Sourced by every script here: directories, messages, required tools, and timed stages.
# shellcheck shell=bash

set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
export LC_ALL=C.UTF-8

say() { printf '%s\n' "$*"; }
die() {
    printf '%s: %s\n' "${0##*/}" "$*" >&2
    exit 1
}

# CI must leave nothing out. Without some tool, a user's run makes all other checks, and names those that it left out.
strict() { [[ ${CI:-} == true || -n ${STRICT:-} ]]; }

# root_on_debian: missing packages may be installed without asking
root_on_debian() { [[ $EUID -eq 0 && -e /etc/debian_version ]] && command -v apt-get >/dev/null; }

apt_install() {
    if ! root_on_debian; then
        die "missing here; on Debian type: sudo apt-get install --no-install-recommends -y $*"
    fi
    say "installing $*"
    apt-get update -qq >&2
    DEBIAN_FRONTEND=noninteractive apt-get install --no-install-recommends -y -qq "$@" >&2
}

# need COMMAND:PACKAGE...
need() {
    local pair missing=()
    for pair; do
        command -v "${pair%%:*}" >/dev/null || missing+=("${pair#*:}")
    done
    [[ ${#missing[@]} -eq 0 ]] || apt_install "${missing[@]}"
}

# 1.95 of Cargo.toml's rust-version as 95; the same for the compiler that is here
rust_minor_wanted() { sed -nE 's/^rust-version = "1\.([0-9]+).*/\1/p' Cargo.toml; }
rust_minor_here() { rustc --version | sed -nE 's/^rustc 1\.([0-9]+).*/\1/p'; }

need_rust() {
    local wanted
    wanted=$(rust_minor_wanted)
    if ! command -v cargo >/dev/null || ! command -v rustc >/dev/null; then
        die "cargo and rustc are missing: install Rust 1.$wanted or newer with rustup"
    fi
    if [[ $(rust_minor_here) -lt $wanted ]]; then
        die "Rust 1.$wanted or newer is needed, and this is $(rustc --version): type rustup update"
    fi
    if ! [[ $(cc -print-file-name=crt1.o 2>/dev/null) == /* ]]; then
        apt_install gcc libc6-dev
    fi
}

# cargo's target directory
target_dir() { cargo metadata --locked --no-deps --format-version 1 | sed -E 's/.*"target_directory":"([^"]*)".*/\1/'; }

# Every feature that nothing in the workspace asks for, but that of the bindings, which lint makes again.
readonly all_features=(--features "superpipe/recorder,superpipe/tracing")
# What is built with the profile test. cargo chooses features for all packages of one command together, so commands that name other
# packages would build everything again.
readonly tested=(--locked --workspace --exclude superpipe-tools "${all_features[@]}")

# Stages. SUPERPIPE_STAGES names the file that collects them, so that scripts which call scripts end in one table.
begin_stages() {
    [[ -z ${SUPERPIPE_STAGES:-} ]] || return 0
    SUPERPIPE_STAGES=$(mktemp)
    export SUPERPIPE_STAGES
    trap 'rm -f "$SUPERPIPE_STAGES"' EXIT
    stages_are_mine=1
}

# cpu_seconds FILE: of what `times` wrote there: user and system time of children
cpu_seconds() { awk 'NR == 2 { split($0, part, /[ms ]+/); print int((part[1] + part[3]) * 60 + part[2] + part[4]) }' "$1"; }

# stage NAME COMMAND...: runs it, prints its seconds and those of its CPU time, and ends everything where it fails
stage() {
    local name=$1 started=$SECONDS status=0 spent took
    shift
    if lane_has_failed; then
        join_lane
    fi
    printf '\n==> %s\n' "$name"
    spent=$(mktemp)
    set +e
    (
        set -e
        "$@"
        times >"$spent"
    )
    status=$?
    set -e
    took="$((SECONDS - started)) s, $(cpu_seconds "$spent") s of CPU time"
    rm -f "$spent"
    if [[ $status -ne 0 ]]; then
        printf 'FAILED: stage %s, exit %d, after %d s\n' "$name" "$status" $((SECONDS - started)) >&2
        exit "$status"
    fi
    printf '<== %s: %s\n' "$name" "$took"
    printf '%-40s %s\n' "$name" "$took" >>"$SUPERPIPE_STAGES"
}

# lane NAME COMMAND...: a stage in the background, beside those that follow, which ends everything once it has failed. What it prints is
# printed by join_lane. One at a time.
lane() {
    lane_log=$(mktemp)
    trap 'end_lane; rm -f "$SUPERPIPE_STAGES"' EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
    # a process group of its own, so that all of it can be ended
    set -m
    (
        stages_are_mine=
        trap - EXIT
        stage "$@"
    ) >"$lane_log" 2>&1 &
    lane_pid=$!
    set +m
}

# lane_has_failed: true if it has ended with an error
lane_has_failed() { [[ -n ${lane_pid:-} ]] && ! kill -0 "$lane_pid" 2>/dev/null && ! wait "$lane_pid"; }

# join_lane: waits for the lane, prints what it printed, and ends everything where it failed
join_lane() {
    local status=0
    [[ -n ${lane_pid:-} ]] || return 0
    wait "$lane_pid" || status=$?
    lane_pid=
    cat "$lane_log"
    rm -f "$lane_log"
    [[ $status -eq 0 ]] || exit "$status"
}

# end_lane: ends it before its work is done
end_lane() {
    [[ -n ${lane_pid:-} ]] || return 0
    kill -TERM -- "-$lane_pid" 2>/dev/null || true
    wait "$lane_pid" 2>/dev/null || true
    rm -f "$lane_log"
}

# left_out NAME WHY: notes a check that cannot be made here; an error if CI or STRICT is set
left_out() {
    if strict; then
        die "$1 cannot be checked: $2"
    fi
    printf '\nNOT CHECKED: %s: %s\n' "$1" "$2"
    printf '%-40s NOT CHECKED: %s\n' "$1" "$2" >>"$SUPERPIPE_STAGES"
}

end_stages() {
    [[ -n ${stages_are_mine:-} ]] || return 0
    printf '\n'
    cat "$SUPERPIPE_STAGES"
    printf '%-40s %5d s\n' all "$SECONDS"
    if grep -q 'NOT CHECKED' "$SUPERPIPE_STAGES"; then
        say "passed, but not everything could be checked here: see NOT CHECKED above"
    fi
}
