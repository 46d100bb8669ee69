#!/usr/bin/env bash
# Runs examples/*.rs and those of superpipe-tokio and superpipe-verbs; each checks itself and ends by itself. Examples over RDMA run at the first address of
# SUPERPIPE_RDMA. Without it they must name what is missing and exit with 69; vm/tests/rdma and vm/tests/verbs run them over devices.
. "$(dirname "$0")/lib.sh"

need_rust
begin_stages
target=$(target_dir)

run_example() { timeout 120 "$target/debug/examples/$@" </dev/null; }

# without_device NAME: it must fail, and say how to make a device
without_device() {
    local status=0 said
    said=$(run_example "$1" 2>&1) || status=$?
    say "$said"
    # with a device and no address it is 2, with the usage
    [[ $status == 69 && $said == *"rdma link add"* || $status == 69 && $said == *"install"* || $status == 2 && $said == usage:* ]] ||
        die "example $1 ended with $status"
}

stage build-examples cargo build "${tested[@]}" --profile test --examples
for source in examples/*.rs async/examples/*.rs ffi/verbs/examples/*.rs; do
    [[ -e $source ]] || die "$source: no example"
    name=$(basename "$source" .rs)
    case $name in
    rdma | write)
        if [[ -n ${SUPERPIPE_RDMA:-} ]]; then
            stage "example $name" run_example "$name" "${SUPERPIPE_RDMA%% *}"
        else
            stage "example $name refuses without a device" without_device "$name"
            # machines of CI have no device, and vm/tests has
            CI='' STRICT='' left_out "example $name" "SUPERPIPE_RDMA names no address of an RDMA device; vm/tests runs it"
        fi
        ;;
    *) stage "example $name" run_example "$name" ;;
    esac
done
end_stages
