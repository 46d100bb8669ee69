#!/usr/bin/env bash
# Tests that need a real RDMA driver: Linux's rxe and siw, in guests that vm/ makes of Debian's packages. First the harness itself,
# then the scripts of vm/tests, with the tools as they ship. Names the reason if this host cannot run guests; see vm/README.md.
. "$(dirname "$0")/lib.sh"

# vm/prepare's exit code for a host that can have no guest
readonly unavailable=69
why=$(mktemp)

prepare() {
    local status=0
    vm/prepare 2>&1 | tee "$why" || status=$?
    if [[ $status -eq 0 ]]; then
        : >"$why"
    elif [[ $status -ne $unavailable ]]; then
        exit "$status"
    fi
}

# STRICT applies only to machines that can run guests. Elsewhere the stage is counted as left out, even in CI.
no_guest() {
    if root_on_debian && [[ $(uname -m) == x86_64 ]]; then
        left_out vm "$1"
    else
        CI='' STRICT='' left_out vm "$1"
    fi
}

need_rust
begin_stages
trap 'rm -f "$why" ${stages_are_mine:+"$SUPERPIPE_STAGES"}' EXIT
stage vm-prepare prepare
if [[ -s $why ]]; then
    no_guest "$(tail -n 1 "$why")"
else
    # before the builds: in `make test` they wait for the lock of cargo test
    stage vm-selftest vm/selftest
    scripts/vm-builds.sh
    stage vm-tests vm/test
fi
end_stages
