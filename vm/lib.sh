# Sourced by every script here: where a prepared guest lies, what must be installed, and what exit codes mean.
# shellcheck shell=bash

# shellcheck disable=SC2034 # for those who source this
caller=$PWD
. "$(dirname "${BASH_SOURCE[0]}")/../scripts/lib.sh"
# shellcheck disable=SC2154 # root is where lib.sh found the tree
vm=$root/vm

# One cache for all trees of a user: what is in it comes from Debian's packages, and from $recipe.
cache=${SUPERPIPE_VM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/superpipe/vm}
recipe=$(cat "$vm/prepare" "$vm/guest/init" "$vm/tsc_khz.rs" | sha256sum | head -c 12)

# Exit codes of vm/run that are not the command's, and vm/prepare's for a host that cannot have a guest.
# shellcheck disable=SC2034 # for those who source this
readonly unavailable=69 refused=120 panicked=123 overdue=124 died=125

# fail CODE WORD...
fail() {
    local code=$1
    shift
    printf '%s: %s\n' "vm/${0##*/}" "$*" >&2
    exit "$code"
}

debian_x86_64() { [[ $(uname -sm) == "Linux x86_64" && $(dpkg --print-architecture 2>/dev/null) == amd64 ]]; }

# need_files FILE:PACKAGE...: installs, as root on Debian, the packages whose file is missing
need_files() {
    local pair missing=()
    for pair; do
        [[ -e ${pair%%:*} ]] || missing+=("${pair#*:}")
    done
    [[ ${#missing[@]} -gt 0 ]] || return 0
    root_on_debian || fail $unavailable "missing here; type: sudo apt-get install --no-install-recommends -y ${missing[*]}"
    (apt_install "${missing[@]}") || fail $unavailable "apt-get cannot install ${missing[*]}"
}

# The kernel image that Debian's newest is, as apt's lists have it; nothing without lists.
newest_kernel() {
    apt-cache depends --no-recommends --no-suggests linux-image-amd64 2>/dev/null |
        sed -nE 's/^ +Depends: (linux-image-[0-9].*-amd64)$/\1/p' | head -n 1
}

# candidate PACKAGE: the version that apt would fetch
candidate() { apt-cache policy "$1" 2>/dev/null | sed -nE 's/^ +Candidate: //p' | grep -vxF '(none)'; }

# What is prepared is named by kernel, version of its package, and recipe.
prepared_name() {
    local image version
    image=$(newest_kernel)
    [[ -n $image ]] || return 1
    version=$(candidate "$image") || return 1
    printf '%s_%s_%s\n' "${image#linux-image-}" "${version/:/%3a}" "$recipe"
}

# The newest that is prepared; where apt knows of none (no lists, no network), the newest in the cache.
prepared() {
    local name
    if name=$(prepared_name); then
        [[ -e $cache/$name/versions ]] && printf '%s\n' "$cache/$name"
        return
    fi
    name=$(find "$cache" -maxdepth 1 -name "*_$recipe" 2>/dev/null | sort -V | tail -n 1)
    [[ -n $name ]] && printf '%s\n' "$name"
}
