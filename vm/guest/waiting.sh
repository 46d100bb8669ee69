# Sourced in a guest by whatever waits. To start a program takes an emulated CPU a tenth of a second, so waiting starts as few as
# it can. The commands of the same names are these functions, for lines that source nothing.
# shellcheck shell=bash

# a pipe that nothing is ever written to
exec {never}<> <(:) || exit

# pause SECONDS: as sleep does
pause() { read -rt "$1" -u "$never" || true; }

# wait-for SECONDS COMMAND [ARGUMENT]...: until the command succeeds, but no longer; yet it gets ten looks for each second, since the guests of
# a busy host stand still for seconds.
wait-for() {
    local looks=$(($1 * 10)) end=$((SECONDS + $1))
    shift
    until "$@"; do
        ((looks-- > 0 || SECONDS < end)) || return 1
        pause 0.02
    done
}

# where hosts meet; each test of several in one boot has a place of its own
met=${VM_MET:-/run/vm/met}

# meet NAME [SECONDS]: waits until the other host meets under the same name; each name serves once. 60 s by default.
meet() {
    [[ $VM_HOSTS == 2 ]] || return 0
    : >"$met/$1.$VM_HOST"
    wait-for "${2:-60}" test -e "$met/$1.$VM_PEER" || {
        echo "meet: host $VM_PEER did not come to $1 in ${2:-60} s" >&2
        return 1
    }
}

# listening [DEVICE]: some process waits for connections, through rdma_cm or by TCP; or through rdma_cm at this device
listening() {
    local ids
    ids=$(rdma resource show cm_id)
    if [[ $# == 1 ]]; then
        [[ $ids =~ link\ $1/[0-9]+\ cm-idn\ [0-9]+\ state\ LISTEN\  ]]
    else
        [[ $ids == *' state LISTEN '* || $(</proc/net/tcp)$(</proc/net/tcp6) == *' 0A '* ]]
    fi
}

# held [DEVICE]: the objects of RDMA devices, or of this one, that are not the kernel's own, which have a name in brackets; and
# what rdma complains of
held() {
    printf 'resource show %s\n' qp cq mr pd cm_id ctx srq | rdma -b - 2>&1 | while read -r line; do
        [[ $line == *' comm ['* || $line != *"${1:-}"* ]] || printf '%s\n' "$line"
    done
}

# nothing-left [SECONDS [DEVICE]]: no process holds an object of an RDMA device any more, or of this one, within so long (10 s);
# prints what is left
nothing-left() {
    local left seconds=${1:-10} device=${2:-}
    wait-for "$seconds" holds-nothing || {
        printf 'nothing-left: after %d s there is still\n%s\n' "$seconds" "$left" >&2
        return 1
    }
}
holds-nothing() {
    left=$(held "$device")
    [[ -z $left ]]
}
