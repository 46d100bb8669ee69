#!/usr/bin/env bash
# Format, clippy, cycles of modules, the exported API, references of the documentation, bindings, documentation, licences and dependencies, and
# core's promise to hold no unsafe code.
. "$(dirname "$0")/lib.sh"

# A warning is an error with the compiler that the project is checked with. A newer one has new warnings: it shows them, and does not fail.
warnings() {
    if [[ $(rust_minor_here) -le $(rust_minor_wanted) ]] || strict; then
        echo "-D warnings"
    else
        echo "-W warnings"
    fi
}

# have_component NAME SUBCOMMAND PACKAGE: from rustup, or from Debian where cargo is Debian's
have_component() {
    cargo "$2" --version >/dev/null 2>&1 && return 0
    if command -v rustup >/dev/null; then
        rustup component add "$1" || true
    elif root_on_debian && [[ $(command -v cargo) == /usr/bin/cargo ]]; then
        apt_install "$3"
    fi
    cargo "$2" --version >/dev/null 2>&1
}

# An error if lint was asked for, and a note if it is a part of `make test`.
no_component() {
    local why="$2 is missing; type: rustup component add $2"
    [[ -z ${stages_are_mine:-} ]] || die "$1 cannot be checked: $why"
    left_out "$1" "$why"
}

format() {
    cargo fmt --all --check
    if [[ -e freestanding/Cargo.toml ]]; then
        cargo fmt --manifest-path freestanding/Cargo.toml --check
    fi
    cargo fmt --manifest-path bench/peers/iceoryx2/Cargo.toml --check
}

clippy() {
    local deny features package feature
    read -ra deny <<<"$(warnings)"
    cargo clippy --locked --workspace "${all_features[@]}" --all-targets -- "${deny[@]}"
    # a test that runs by its name only
    cargo clippy --locked --workspace "${all_features[@]}" --test limits -- "${deny[@]}"
    # As a user builds it: tests, tools and benchmarks have the feature internals.
    cargo clippy --locked -p superpipe --lib -- "${deny[@]}"
    features=$(scripts/features.sh)
    while read -r package feature; do
        say "clippy: $package with ${feature:-no feature}"
        # tests, too, only where all features are missing: what builds so builds with one of them
        cargo clippy --locked -p "$package" "$([[ $feature ]] && say --lib || say --all-targets)" --no-default-features ${feature:+--features "$feature"} -- "${deny[@]}"
    done <<<"$features"
    if [[ -e freestanding/Cargo.toml ]]; then
        (cd freestanding && cargo clippy --locked --release --target-dir "$target/freestanding" -- "${deny[@]}")
    fi
}

# cargo also looks in its own bin directory, which need not be in PATH
have_deny() { cargo deny --version >/dev/null 2>&1; }

documentation() { RUSTDOCFLAGS=$(warnings) cargo doc --locked --workspace --no-deps; }

no_unsafe_in_core() {
    grep -qxF '#![forbid(unsafe_code)]' core/src/lib.rs || die "core/src/lib.rs lacks #![forbid(unsafe_code)]"
    # comments may speak of it
    if grep -rnw unsafe --include='*.rs' core/src | grep -vE '^[^:]+:[0-9]+: *//'; then
        die "core holds the word above outside a comment; what needs it belongs behind Fabric, in ffi"
    fi
}

# No cycles of modules inside a crate, and the exported API of each library is what docs/api says; UPDATE=1 writes that again.
sources() { cargo test "${tested[@]}" -q --test source; }

# Files of ffi that read the clock. Other files get the time as an argument, and tests choose it. Tests and ffi/os may read it.
clock_readers() {
    cat <<'LIST'
ffi/blocking/accepting.rs            accepts until a deadline
ffi/blocking/connecting.rs           connects again until a deadline
ffi/blocking/descriptor_waiting.rs   the shell of the driver
ffi/blocking/fabric_listeners.rs     looks a name up until a deadline
ffi/blocking/host_driver.rs          the shell of the driver
ffi/blocking/listener_clock.rs       the time of a listener's half-open connections
ffi/blocking/retry.rs                pauses between two attempts to connect
ffi/blocking/shm.rs                  connects until a deadline
ffi/blocking/waiting.rs              the shell of the driver
ffi/budget.rs                        times of demands that were refused
ffi/budget/share.rs                  the same
ffi/copy/crc_kernels.rs              times kernels, once
ffi/copy/rates.rs                    times kernels, once
ffi/deadline.rs                      turns what a user says into a time
ffi/fabric/rdma/cm.rs                waits for the peer's agreement to a disconnect
ffi/fabric/rdma/connect.rs           connects again until a deadline
ffi/fabric/rdma/connection/ending.rs waits for what was sent
ffi/fabric/rdma/deadline.rs          converts a deadline for superpipe-verbs
ffi/fabric/rdma/fabric.rs            Fabric::now
ffi/fabric/rdma/handshake.rs         the shell of the handshake
ffi/fabric/rdma/listen_address.rs    looks a name up until a deadline
ffi/fabric/rdma/listener.rs          listens again where a device went away
ffi/fabric/rdma/device.rs            resolves an address, once
ffi/fabric/shm/fabric.rs             Fabric::now
ffi/fabric/shm/handshake.rs          the shell of the handshake
ffi/fabric/shm/listener.rs           waits for the lock of a directory
ffi/fabric/shm/socket.rs             waits for a packet
ffi/metrics/publisher.rs             time of the first copy
ffi/metrics/reader.rs                tells when it has read
ffi/poller.rs                        the shell of many drivers
ffi/poller/call.rs                   the same
ffi/verbs/src/wait.rs                waits for an event
ffi/waitable/connecting.rs           a driver that a program waits for
ffi/waitable/connection.rs           the same
ffi/waitable/listener.rs             the same
LIST
}

# without_tests FILE: a Rust file without its comments, and without the items behind cfg(test) and cfg(all(test, ..)). As rustfmt writes
# them, an item ends in its first line, or at a brace in the first column.
without_tests() {
    awk '/^ *\/\// { next }
        /^#\[cfg\((all\()?test[,)]/ { behind = 1; next }
        behind && /^#\[/ { next }
        behind { behind = 0; inside = !/[;}]$/; next }
        inside { inside = !/^}/; next }
        { print }' "$1"
}

clocks_are_read_in_known_places() {
    local found known reads='\<monotonic_ns\>|\<clock_gettime\>|[A-Z][A-Za-z]*::now\>|(Instant|SystemTime) as |[^_a-z]until\('
    found=$(grep -rlE "$reads" --include='*.rs' ffi |
        grep -vE '^ffi/(os|tests|verbs/src/fake|verbs/tests|verbs/examples)/|tests?\.rs$|/tests/' |
        while read -r file; do
            # grep without -q reads its whole input: with -q it would end early and fail the pipe.
            if without_tests "$file" | grep -E "$reads" >/dev/null; then
                echo "$file"
            fi
        done | sort)
    known=$(clock_readers | awk '{print $1}' | sort)
    diff <(echo "$known") <(echo "$found") || die "> reads the clock and is not in scripts/lint.sh's list, < is and does not"
}

# Only scripts/test-planted.sh may ask for the build with planted bugs, and no file that cargo reads by itself.
no_planted_bugs() {
    if grep -rnE 'superpipe_planted|rustc/planted' --include='*.toml' --include=config --include=build.rs --exclude-dir=target . | grep -v check-cfg; then
        die "the files above would have bugs planted in a product"
    fi
}

# A test's name says its rule in fewer than 60 characters.
short_test_names() {
    if find . -name '*.rs' -not -path '*/target/*' -print0 | xargs -0 grep -hE -A3 '#\[test\]' | grep -oE 'fn [A-Za-z0-9_]{60,}'; then
        die "the names of tests above have 60 characters or more"
    fi
}

scripts_parse() {
    local script
    for script in scripts/*.sh .ci/run vm/{lib,boot}.sh vm/{prepare,run,test,selftest} vm/guest/{start,network} vm/guest/*.sh vm/guest/bin/* vm/tests/* vm/bench/*; do
        bash -n "$script"
    done
    for script in vm/guest/init scripts/rustc/*; do
        sh -n "$script"
    done
}

# The files of the peers' harness that need none of the peers' headers.
harness_compiles() {
    (cd bench/peers && cc -std=c11 -O2 -Wall -Wextra -Werror -fsyntax-only harness.c tests.c common.c pair.c)
}

need_rust
target=$(target_dir)
begin_stages
stage scripts scripts_parse
stage harness harness_compiles
stage no-unsafe-in-core no_unsafe_in_core
stage no-planted-bugs no_planted_bugs
stage clocks clocks_are_read_in_known_places
stage references scripts/check-docs.sh
stage test-names short_test_names
if have_component rustfmt fmt rustfmt; then
    stage format format
else
    no_component format rustfmt
fi
if have_component clippy clippy rust-clippy; then
    stage clippy clippy
else
    no_component clippy clippy
fi
stage sources sources
stage bindings scripts/bindings.sh --check
stage documentation documentation
if ! have_deny && strict; then
    # not optimized: to build it takes a minute, and to run it a second
    stage install-cargo-deny env CARGO_PROFILE_DEV_DEBUG=none cargo install --locked --debug cargo-deny
fi
if have_deny; then
    stage dependencies cargo deny --locked --workspace check bans licenses sources
else
    left_out dependencies "cargo-deny is missing; it takes a minute to build; type: cargo install --locked --debug cargo-deny"
fi
end_stages
