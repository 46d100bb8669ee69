# Sourced by tests of rsend and rrecv: addresses, two ends with their exit codes, comparison of data. In a lone
# guest both ends are here; of two, rrecv is on host 1 and rsend on host 2. SUPERPIPE_BIN is set.
# shellcheck shell=bash disable=SC2034

. "$VM_GUEST/waiting.sh"
PATH=$SUPERPIPE_BIN:$PATH
receives=$([[ $VM_HOST == 1 ]] && echo 1 || true)
sends=$([[ $VM_HOST == "$VM_HOSTS" ]] && echo 1 || true)

wrong() {
    printf 'wrong: %s\n' "$*" >&2
    exit 1
}

# seeded: makes $RANDOM the same on both hosts, and prints what repeats it
seeded() {
    if [[ $VM_HOST == 1 ]]; then
        echo "${SUPERPIPE_VM_SEED:-$RANDOM}" >"$met/seed"
    fi
    meet seed
    RANDOM=$(<"$met/seed")
    [[ $VM_HOST != 1 ]] || echo "seed: again with SUPERPIPE_VM_SEED=$(<"$met/seed")"
}

# below N: sets $drawn to less than N; not in a subshell, which would draw the same again
below() { drawn=$(((RANDOM << 15 | RANDOM) % $1)); }

# lanes FUNCTION: runs it for both drivers at a time, each in a directory of its own and with random numbers of its own
lanes() {
    local driver seed pid pids=() failed=''
    for driver in rxe siw; do
        seed=$RANDOM
        mkdir "$driver"
        (
            cd "$driver"
            RANDOM=$seed
            "$1" "$driver"
        ) &
        pids+=($!)
    done
    for pid in "${pids[@]}"; do
        wait "$pid" || failed=1
    done
    [[ -z $failed ]] || wrong "$1"
}

# place ADDRESS: adds a port, in the form of the tools
place() {
    case $1 in
    *:*) echo "[$1]:7471" ;;
    *) echo "$1:7471" ;;
    esac
}

# here rxe|siw [6], there rxe|siw [6]: where rrecv listens, and where rsend finds it
here() {
    local variable=VM_${1^^}_ADDRESS${2:-}
    place "${!variable}"
}
there() {
    local variable=VM_${1^^}_PEER${2:-}
    place "${!variable}"
}

# device rxe|siw
device() {
    local variable=VM_${1^^}
    echo "${!variable}"
}

# in_memory: changes to a directory in memory, which is not overlaid
in_memory() {
    local directory
    directory=$(mktemp -d)
    mount -t tmpfs data "$directory"
    cd "$directory"
}

# pair NAME SECONDS RECEIVER SENDER: two command lines; sets $received and $sent to their exit codes, on both hosts. Each NAME
# serves once. 124 is a command that had to be stopped. rsend looks for a receiver until there is one.
pair() {
    local name=$1 seconds=$2 running=
    echo none >"$met/$name.received"
    echo none >"$met/$name.sent"
    meet "$name.begins"
    if [[ -n $receives ]]; then
        timeout --kill-after 2 "$seconds" bash -o pipefail -c "$3" &
        running=$!
    fi
    if [[ -n $sends ]]; then
        sent=0
        timeout --kill-after 2 "$seconds" bash -o pipefail -c "$4" || sent=$?
        echo "$sent" >"$met/$name.sent"
    fi
    if [[ -n $running ]]; then
        received=0
        wait "$running" || received=$?
        echo "$received" >"$met/$name.received"
    fi
    meet "$name.over" $((seconds + 60))
    received=$(<"$met/$name.received") sent=$(<"$met/$name.sent")
}

# made NAME BYTES: on the sender's side a file `sent` of random bytes, with its sum for the other host
made() {
    [[ -z $sends ]] || {
        head -c "$2" /dev/urandom >sent
        sha256sum <sent >"$met/$1.sum"
    }
}

# arrived NAME: `received` is what was made under that name
arrived() {
    [[ -z $receives ]] || [[ $(sha256sum <received) == "$(<"$met/$1.sum")" ]] || wrong "$1: not what was sent"
}

# clean WHAT [rxe|siw]: nobody holds anything of a device, or of this driver's, here
clean() { nothing-left 10 "${2:+$(device "$2")}" || wrong "after $1"; }

# contains FILE TEXT...: fails unless each text is in the file
contains() {
    local file=$1 text
    shift
    for text; do
        grep -qF -e "$text" "$file" || wrong "$(printf 'missing: %s\nbut:\n%s' "$text" "$(<"$file")")"
    done
}
