#!/usr/bin/env bash
# Makes the bindings to rdma-core again, from the headers that they are committed from: Debian 12's rdma-core 44. With
# --check nothing is written: it is an error if they differ.
. "$(dirname "$0")/lib.sh"

snapshot=ffi/verbs/src/snapshot.rs
wanted=44

have_all() {
    [[ -e /usr/include/infiniband/verbs.h && -e /usr/include/rdma/rdma_cma.h ]] &&
        /sbin/ldconfig -p | grep -qE 'libclang(-[0-9]+)?\.so'
}

need_rust
begin_stages
if ! have_all; then
    if [[ ${1:-} == --check ]] && ! root_on_debian; then
        left_out bindings "rdma-core's headers or libclang are missing; on Debian: libibverbs-dev librdmacm-dev libclang-dev"
        exit
    fi
    apt_install libibverbs-dev librdmacm-dev libclang-dev
fi
version=$(dpkg-query -W -f '${source:Upstream-Version}' libibverbs-dev 2>/dev/null) || version=unknown
made=$(cargo check --locked -p superpipe-verbs --features bindgen --message-format json |
    sed -nE 's/.*\["SUPERPIPE_RDMA_BINDINGS","([^"]+)"\].*/\1/p')
[[ $made == */rdma.rs ]] || die "bindgen made nothing of this host's headers: see the warning above"
if [[ ${version%%.*} != "$wanted" ]]; then
    say "this host's headers are of rdma-core $version and make bindings that compile; those in $snapshot are of $wanted"
elif [[ ${1:-} == --check ]]; then
    diff -u "$snapshot" "$made" || die "$snapshot is not what bindgen makes of rdma-core $version; type: scripts/bindings.sh"
    say "$snapshot is what bindgen makes of rdma-core $version"
else
    cp "$made" "$snapshot"
    say "$snapshot is written, from rdma-core $version"
fi
