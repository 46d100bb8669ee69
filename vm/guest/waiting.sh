# Sourced in a guest by whatever waits. To start a program takes an emulated CPU a tenth of a second, so waiting starts as few as
# it can. The commands of the same names are these functions, for lines that source nothing.
# shellcheck shell=bash

# a pipe that nothing is ever written to
exec {never}<> <(:) || exit

# pause SECONDS: as sleep does
pause() { read -rt "$1" -u "$never" || true; }

# wait-for SECONDS COMMAND [ARGUMENT]...: until the command succeeds, but no longer. Looks are counted, since a guest's clock seems
# to have gone forward by two minutes at once: a wait of seconds that reads it would have been over before its time.
wait-for() {
    local left=$(($1 * 50))
    shift
    until "$@"; do
        ((left-- > 0)) || return 1
        pause 0.02
    done
}

# meet NAME [SECONDS]: waits until the other host has come to the same place; each name serves once. 60 s unless told.
meet() {
    [[ $VM_HOSTS == 2 ]] || return 0
    : >"/run/vm/met/$1.$VM_HOST"
    wait-for "${2:-60}" test -e "/run/vm/met/$1.$VM_PEER" || {
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
    local left looks=$((${1:-10} * 10)) # each starts a program
    while left=$(held "${2:-}") && [[ -n $left ]]; do
        if ((looks-- <= 0)); then
            printf 'nothing-left: after %d s there is still\n%s\n' "${1:-10}" "$left" >&2
            return 1
        fi
        pause 0.02
    done
}
