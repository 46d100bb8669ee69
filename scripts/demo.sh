#!/usr/bin/env bash
# Moves a file of random bytes from rsend to rrecv, two processes on two cores, over shared memory; compares the copy;
# then flips a bit in flight, which both ends must report; then checks that no file or process is left behind.
. "$(dirname "$0")/lib.sh"

mib=${DEMO_MIB:-1024}
work=
children=()

cleanup() {
    local pid
    for pid in "${children[@]}"; do
        { kill -KILL "$pid" && wait "$pid"; } 2>/dev/null || true
    done
    [[ -z $work ]] || rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# A directory with room for the data twice: on disk, or on a tmpfs if enough memory is left.
roomy_directory() {
    local directory free block kind
    for directory in "${TMPDIR:-/tmp}" /var/tmp "$target"; do
        read -r free block kind < <(stat -f -c '%a %S %T' "$directory" 2>/dev/null) || continue
        [[ -w $directory && $((free * block >> 20)) -ge $((2 * mib + 256)) ]] || continue
        if [[ $kind == tmpfs || $kind == ramfs ]]; then
            [[ $(sed -nE 's/^MemAvailable: *([0-9]+) kB/\1/p' /proc/meminfo) -ge $(((3 * mib + 1024) * 1024)) ]] || continue
        fi
        mktemp -d "$directory/superpipe-demo.XXXXXX"
        return
    done
    die "$((2 * mib + 256)) MiB are needed in one of ${TMPDIR:-/tmp}, /var/tmp, $target; set TMPDIR, or DEMO_MIB to less than $mib"
}

# The cores that this process may use, one per line: 0-2,7 as 0 1 2 7.
allowed_cores() {
    local range
    for range in $(sed -nE 's/^Cpus_allowed_list:\s*//p' /proc/self/status | tr ',' ' '); do
        seq "${range%-*}" "${range#*-}"
    done
}

# Two cores to pin to; the two hardware threads of one core only if there are no others.
choose_cores() {
    local cores core siblings
    mapfile -t cores < <(allowed_cores)
    [[ ${#cores[@]} -ge 2 ]] || return 0
    siblings=$(cat "/sys/devices/system/cpu/cpu${cores[0]}/topology/thread_siblings_list" 2>/dev/null || true)
    for core in "${cores[@]:1}"; do
        if ! grep -qE "(^|[,-])$core($|[,-])" <<<"$siblings"; then
            say "${cores[0]} $core"
            return
        fi
    done
    say "${cores[0]} ${cores[1]}"
}

# transfer NAME SENDER-OPTION...: runs both ends until both have ended; sets sender_status and receiver_status
transfer() {
    local name=$1 sender receiver
    shift
    "$rrecv" "${pin_receiver[@]}" -q --json="$work/$name.rrecv" --listen "shm:$work/socket" "$work/$name.out" &
    receiver=$!
    children+=("$receiver")
    "$rsend" "${pin_sender[@]}" -q --json="$work/$name.rsend" "$@" "shm:$work/socket" "$work/in" &
    sender=$!
    children+=("$sender")
    sender_status=0 receiver_status=0
    wait "$sender" || sender_status=$?
    # a receiver that no sender ever reached would listen for good
    ended_within 20 "$receiver" || kill -TERM "$receiver"
    wait "$receiver" || receiver_status=$?
    children=()
}

# ended_within SECONDS CHILD
ended_within() {
    local deadline=$((SECONDS + $1))
    while kill -0 "$2" 2>/dev/null; do
        [[ $SECONDS -lt $deadline ]] || return 1
        sleep 0.05
    done
}

# field FILE NAME: a number of the tool's end event
field() { sed -nE "/\"end\"/ s/.*\"$2\": *([0-9.eE+-]+).*/\1/p" "$1"; }

report_rate() {
    local tool bytes seconds rate
    for tool in rsend rrecv; do
        bytes=$(field "$work/good.$tool" bytes)
        seconds=$(field "$work/good.$tool" seconds)
        rate=$(field "$work/good.$tool" gb_per_s)
        [[ $bytes == $((mib << 20)) ]] || die "$tool reports ${bytes:-no} bytes and not $((mib << 20))"
        say "   $tool: $bytes bytes in $seconds s, $rate GB/s"
    done
}

shared_memory() { find /dev/shm -mindepth 1 2>/dev/null | sort; }

# New files in /dev/shm that no process holds. Files that other programs make meanwhile are held by them.
abandoned_memory() {
    local path
    while read -r path; do
        if [[ -f $path ]] && ! grep -qsF " $path" /proc/[0-9]*/maps && ! find /proc/[0-9]*/fd -lname "$path" 2>/dev/null | grep -q .; then
            say "$path"
        fi
    done < <(comm -13 <(printf '%s\n' "$memory_before") <(shared_memory))
}

check_nothing_left() {
    local left
    # the directory holds what this script put there, the tools' reports and the one good copy
    left=$(find "$work" -mindepth 1 ! -name in ! -name '*.rsend' ! -name '*.rrecv' ! -name good.out)
    [[ -z $left ]] || die "left behind: $left"
    # the directory's name is this run's own; grep itself must not have it among its arguments
    left=$(grep -lsaF -f <(say "shm:$work/") /proc/[0-9]*/cmdline || true)
    [[ -z $left ]] || die "a process is left: $left"
    left=$(abandoned_memory)
    [[ -z $left ]] || die "shared memory is left: $left"
}

say "superpipe demo: $mib MiB of random bytes go from rsend to rrecv, two processes, over shared memory"
say "1. builds the two tools (the first time takes a minute or two)"
need_rust
need cmp:diffutils
target=$(target_dir)
cargo build --locked --release -p superpipe-tools
rsend=$target/release/rsend rrecv=$target/release/rrecv

say "2. makes the data"
work=$(roomy_directory)
memory_before=$(shared_memory)
head -c "${mib}M" /dev/urandom >"$work/in"

pin_sender=() pin_receiver=() where="not pinned: only one core is allowed here"
read -r first second < <(choose_cores) || true
if [[ -n ${second:-} ]]; then
    pin_sender=(--core "$first") pin_receiver=(--core "$second")
    where="rsend on core $first, rrecv on core $second"
fi

say "3. moves it ($where)"
transfer good
[[ $sender_status -eq 0 && $receiver_status -eq 0 ]] || die "rsend ended with $sender_status, rrecv with $receiver_status"
cmp "$work/in" "$work/good.out"
say "   the copy is the same, byte for byte (cmp)"
report_rate

say "4. moves it again, and flips one bit in flight; what the tools say to that:"
transfer flipped --inject-flip $((mib << 19))
[[ $sender_status -eq 6 && $receiver_status -eq 6 ]] ||
    die "a byte was broken, and rsend ended with $sender_status, rrecv with $receiver_status: 6 (integrity) is right"
say "   both ends noticed, and ended with exit code 6; no file was made"

check_nothing_left
say "5. nothing is left: no file, no process, no shared memory"
