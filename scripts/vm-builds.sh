#!/usr/bin/env bash
# What the tests of vm/tests run in a guest: the tools as they ship, and the test programs that want an RDMA device. The test programs
# are found by name in `vm-tests` of the target directory.
. "$(dirname "$0")/lib.sh"

# Those of ffi/tests that are told of devices by SUPERPIPE_RDMA. Built together, on all cores.
readonly programs=(verbs rdma scripted)

need_rust
begin_stages
directory=$(target_dir)/vm-tests
mkdir -p "$directory"
build_programs() {
    local name file built
    built=$(cargo test --locked --profile checks -p superpipe "${programs[@]/#/--test=}" --no-run --message-format json)
    for name in "${programs[@]}"; do
        file=$(sed -nE "s/.*\"name\":\"$name\".*\"executable\":\"([^\"]+)\".*/\1/p" <<<"$built")
        [[ -x $file ]] || die "cargo has not said where it built the test program $name"
        ln -sfn "$file" "$directory/$name"
    done
}
stage vm-tools cargo build --locked --release -p superpipe-tools
stage vm-programs build_programs
end_stages
