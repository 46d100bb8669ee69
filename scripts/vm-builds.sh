#!/usr/bin/env bash
# Builds what vm/tests runs in a guest: the tools as they ship, and the test programs and examples that need an RDMA device. Test
# programs are found by name in `vm-tests` of the target directory, examples as `example-NAME`.
. "$(dirname "$0")/lib.sh"

# Tests of superpipe-verbs and superpipe that get their devices from SUPERPIPE_RDMA. Built together, on all cores.
readonly programs=(verbs rdma claims scripted many poller) examples=(rdma write loan)
# Two packages have a test of the name api: where its source is, and what it is called in a guest.
declare -rA apis=([ffi/tests/api]=api [async/tests/api]=tokio)

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
link_apis() {
    local source file built
    built=$(cat)
    for source in "${!apis[@]}"; do
        file=$(sed -nE "s#.*\"src_path\":\"[^\"]*/$source/main.rs\".*\"executable\":\"([^\"]+)\".*#\1#p" <<<"$built")
        [[ -x $file ]] || die "cargo has not said where it built $source"
        ln -sfn "$file" "$directory/${apis[$source]}"
    done
}
build_programs() {
    local built
    built=$(cargo test "${tested[@]}" --message-format json "${programs[@]/#/--test=}" --test=api --no-run)
    link '' "${programs[@]}" <<<"$built"
    link_apis <<<"$built"
    cargo build "${tested[@]}" --message-format json --profile test "${examples[@]/#/--example=}" | link example- "${examples[@]}"
}
stage vm-tools cargo build --locked --release -p superpipe-tools
stage vm-programs build_programs
end_stages
