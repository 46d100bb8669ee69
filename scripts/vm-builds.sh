#!/usr/bin/env bash
# Builds what vm/tests runs in a guest: the tools as they ship, and the test programs and examples that need an RDMA device. Test
# programs are found by name in `vm-tests` of the target directory, examples as `example-NAME`.
. "$(dirname "$0")/lib.sh"

# Tests of superpipe-verbs and superpipe that get their devices from SUPERPIPE_RDMA. Built together, on all cores.
readonly programs=(verbs rdma claims scripted) examples=(rdma write)

need_rust
begin_stages
directory=$(target_dir)/vm-tests
mkdir -p "$directory"
# link PREFIX NAME...: links what cargo's messages on standard input name
link() {
    local prefix=$1 name file built
    built=$(cat)
    for name in "${@:2}"; do
        file=$(sed -nE "s/.*\"name\":\"$name\".*\"executable\":\"([^\"]+)\".*/\1/p" <<<"$built")
        [[ -x $file ]] || die "cargo has not said where it built $name"
        ln -sfn "$file" "$directory/$prefix$name"
    done
}
build_programs() {
    cargo test "${tested[@]}" --message-format json "${programs[@]/#/--test=}" --no-run | link '' "${programs[@]}"
    cargo build "${tested[@]}" --message-format json --profile test "${examples[@]/#/--example=}" | link example- "${examples[@]}"
}
stage vm-tools cargo build --locked --release -p superpipe-tools
stage vm-programs build_programs
end_stages
