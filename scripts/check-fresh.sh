#!/usr/bin/env bash
# Runs `make demo` and `make test`, each in a fresh minimal Debian that has only Rust, make and a C linker. Needs root, on Debian.
# Arguments are other targets of make to run instead; SUITE is another release.
#
# It uses of this machine: the committed HEAD, the toolchain (read-only), and how to reach the network (Debian's
# mirror, proxies, certificates). All mounts live in a mount namespace and die with it, whatever happens.
. "$(dirname "$0")/lib.sh"

# The inner part, in namespaces of its own: everything below $fresh is the new Debian.

make_base() {
    debootstrap --variant=minbase --include=make,gcc,libc6-dev,ca-certificates "$suite" "$work/base" "$mirror" >"$work/log" 2>&1 ||
        { tail -n 20 "$work/log" >&2; die "debootstrap failed"; }
    apt-config dump | grep '^Acquire::' >"$work/base/etc/apt/apt.conf.d/90host" || true
    local file
    for file in /etc/hosts /etc/resolv.conf "${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt}"; do
        [[ ! -e $file ]] || install -D -m 644 "$file" "$work/base$file"
    done
    # cargo as it is configured here, with nothing that it has already fetched
    file=${CARGO_HOME:-$HOME/.cargo}/config.toml
    [[ ! -e $file ]] || install -D -m 644 "$file" "$work/base/root/.cargo/config.toml"
}

# variables that say how to reach the network, and whether this is CI
passed_on() {
    local name
    for name in $(compgen -e); do
        case $name in
        *_proxy | *_PROXY | CARGO_HTTP_* | CARGO_NET_* | CARGO_REGISTR* | CARGO_SOURCE_* | SSL_CERT_FILE | CI | STRICT)
            printf '%s=%s\n' "$name" "${!name}"
            ;;
        esac
    done
}

type_in_fresh() {
    local fresh=$work/fresh variables
    cp -a --reflink=auto "$work/base" "$fresh"
    git clone --quiet --no-hardlinks "$root" "$fresh/root/superpipe"
    mkdir "$fresh/opt/rust"
    mount --bind "$toolchain" "$fresh/opt/rust"
    mount -o remount,bind,ro "$fresh/opt/rust"
    mount -t proc proc "$fresh/proc"
    mount -t sysfs -o ro sysfs "$fresh/sys"
    mount -t devpts -o newinstance,ptmxmode=666 devpts "$fresh/dev/pts"
    mkdir -p "$fresh/dev/shm"
    mount -t tmpfs -o mode=1777 tmpfs "$fresh/dev/shm"
    mapfile -t variables < <(passed_on)
    chroot "$fresh" /usr/bin/env -i "${variables[@]}" HOME=/root TERM="${TERM:-dumb}" LANG=C.UTF-8 \
        PATH=/opt/rust/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        bash -c 'cd /root/superpipe && exec make "$1"' bash "$1" </dev/null
    umount "$fresh"/{dev/shm,dev/pts,sys,proc,opt/rust}
    rm -rf --one-file-system "$fresh"
}

inner() {
    local goal
    begin_stages
    stage "debootstrap $suite" make_base
    for goal; do
        stage "make $goal, fresh" type_in_fresh "$goal"
    done
    end_stages
}

if [[ ${1:-} == --inner ]]; then
    shift
    inner "$@"
    exit
fi

# The outer part: what must be there, and the directory, which is removed from outside the mount namespace.

[[ -e /etc/debian_version ]] || die "this needs Debian (debootstrap)"
[[ $EUID -eq 0 ]] || die "this needs root, to chroot and mount; type: sudo --preserve-env=PATH,HOME make check-fresh"
need debootstrap:debootstrap unshare:util-linux git:git
need_rust

toolchain=$(rustc --print sysroot)
[[ $toolchain != /usr && -x $toolchain/bin/cargo ]] || die "this needs a Rust toolchain in a directory of its own, as rustup makes"
suite=${SUITE:-$(. /etc/os-release && echo "${VERSION_CODENAME:-}")}
mirror=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' |
    sed -nE "s/^(\S+) $suite main\$/\1/p" | head -n 1)
[[ -n $mirror ]] || die "apt has no source of $suite main here"

umask 022
work=$(mktemp -d "${TMPDIR:-/var/tmp}/superpipe-fresh.XXXXXX")
namespace=
trap '[[ -z $namespace ]] || { kill -KILL "$namespace"; wait "$namespace"; } 2>/dev/null || true; rm -rf --one-file-system "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
chmod 755 "$work"
# root may read a repository that is a user's
printf '[safe]\n\tdirectory = *\n' >"$work/gitconfig"
export GIT_CONFIG_GLOBAL=$work/gitconfig

[[ -z $(git status --porcelain) ]] || say "changes that are not committed are not part of this check"
say "checks $(git rev-parse --short HEAD) in a fresh Debian $suite with $(rustc --version)"
[[ $# -gt 0 ]] || set -- demo test
export work toolchain suite mirror TMPDIR=$work
unshare --mount --propagation private --pid --fork --kill-child "$0" --inner "$@" &
namespace=$!
status=0
wait "$namespace" || status=$?
namespace=
exit "$status"
