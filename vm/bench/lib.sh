# Sourced by the measurements in a guest: runs each contestant pinned to the two CPUs, and writes its figures to $FIGURES, one JSON
# object per line, as bench/src/bin/benchmarks/figures.rs documents them. Latencies are half round trips in microseconds; rates
# are megabytes of 10^6 bytes per second.
# shellcheck shell=bash disable=SC2154

. "$VM_GUEST/waiting.sh"
PATH=$SUPERPIPE_BIN:$PATH

# figure DRIVER TEST WHO BYTES VALUE
figure() {
    [[ $VM_HOST == "$VM_HOSTS" ]] || return 0
    [[ $5 =~ ^[0-9.]+$ ]] || { echo "no figure of $3, $2 at $4 B over $1: $5" >&2; return 0; }
    printf '{"figure":[%d,"%s","%s","%s",%d,%s]}\n' "$round" "$2" "$3" "$1" "$4" "$5" | tee -a "$FIGURES"
}

# command_of WHO LINE: writes the command behind the figures, once
declare -A written
command_of() {
    [[ -z ${written[$1]:-} ]] || return 0
    written[$1]=1
    local line=${2#"${UCX:-}/bin/"}
    printf '{"command":["%s","%s"]}\n' "$1" "${line//\"/\'}" >>"$FIGURES"
}

# device DRIVER, own DRIVER, peer DRIVER
device() { local name=VM_${1^^} && echo "${!name}"; }
own() { local name=VM_${1^^}_ADDRESS && echo "${!name}"; }
peer() { local name=VM_${1^^}_PEER && echo "${!name}"; }

# calc EXPRESSION
calc() { [[ $1 != " "* ]] && perl -e "printf('%.4f', $1)"; }

# turn WHO NAME SERVER CLIENT: runs a server here or on host 1 and a client here or on host 2, whose output is in $out. Reports a
# failure, and tries once more.
turn() {
    local server try status
    command_of "$1, $2" "$4"
    for try in 1 2; do
        server='' status=0 out=''
        if [[ $VM_HOST == 1 ]]; then
            # shellcheck disable=SC2086 # lines of words
            timeout 120 taskset -c 1 $3 >server.out 2>&1 </dev/null &
            server=$!
            wait-for 20 listening || true
        fi
        meet "$((++turns))"
        if [[ $VM_HOST == "$VM_HOSTS" ]]; then
            # shellcheck disable=SC2086
            timeout 100 taskset -c 0 $4 >client.out 2>client.err || status=$?
            out=$(<client.out)
            echo "$status" >"/run/vm/met/$turns.status"
        fi
        meet "$turns.over" 130
        status=$(<"/run/vm/met/$turns.status")
        if [[ -n $server ]]; then
            # a server that serves further clients, or waits for one that failed
            [[ $status == 0 && " $3 " != *\ --keep\ * ]] || kill "$server" 2>/dev/null || true
            wait "$server" 2>/dev/null || true
        fi
        [[ $status != 0 ]] || return 0
        echo "try $try of $4: $status: $(tail -qn 3 client.err client.out server.out 2>/dev/null)" >&2
    done
    out=
    return 1
}
turns=0

# field N: prints the Nth field of the last line of figures of perftest or UCX
field() { awk -v n="$1" '$1 ~ /^[0-9]+$/ { value = $n } END { print value }' <<<"$out"; }

# perftest's MB are 2^20 bytes
write_bw() { # DRIVER BYTES ITERATIONS
    local line="ib_write_bw -R -F -d $(device "$1") -s $2 -n $3"
    turn ib_write_bw rate "$line" "$line $(peer "$1")" || return 0
    figure "$1" rate ib_write_bw "$2" "$(calc "$(field 4) * 1.048576")"
}
write_lat() { # DRIVER BYTES ITERATIONS
    local line="ib_write_lat -R -F -d $(device "$1") -s $2 -n $3"
    turn ib_write_lat latency "$line" "$line $(peer "$1")" || return 0
    figure "$1" latency ib_write_lat "$2" "$(field 5)"
}

# of LINE FIELD: prints a number of a JSON object
of() { [[ $1 =~ \"$2\":([0-9.e-]+) ]] && echo "${BASH_REMATCH[1]}"; }

# rperf_of DRIVER ARRIVAL TEST SIZES [OPTION]...: measures over one connection; with --reconnect the first message of a process, with
# --reconnect=N those of N connections
rperf_of() {
    local driver=$1 arrival=$2 test=$3 sizes=$4 name=$3 bytes value line place listen title=${title:-superpipe, $2}
    shift 4
    case " $* " in
    *\ --reconnect=*) name=connection ;;
    *\ --reconnect\ *) name=first ;;
    *) [[ $test == latency ]] || name=${lossy:-rate} ;;
    esac
    place=verbs:$(peer "$driver"):7471 listen=verbs:$(own "$driver"):7471
    turn "$title" "$name" "rperf serve -q --core 1 --arrival $arrival ${serve:-} --listen $listen $([[ " $* " != *\ --reconnect* ]] || echo --keep)" \
        "rperf -q --core 0 --wait spin --arrival $arrival --json=- --test $test --sizes $sizes $* $place" || return 0
    while read -r line; do
        bytes=$(of "$line" bytes)
        case $name in
        connection | first) value=$(of "$line" first_us) ;;
        latency) value=$(of "$line" p50_us) ;;
        *) value=$(calc "1000 * $(of "$line" gb_per_s)") ;;
        esac
        figure "$driver" "$name" "$title" "$bytes" "$value"
    done < <(grep '"event":"result"' <<<"$out")
}

# registered DRIVER SIZE: streams out of registered buffers into registered buffers, whose peer is trusted with them
registered() {
    title='superpipe, registered' serve=--trust-peer rperf_of "$1" flag stream "$2" --protocol register-cached --trust-peer
}

# copies SIZES: measures memcpy, beside the rates of both drivers
copies() {
    local line driver
    while read -r line; do
        for driver in rxe siw; do
            figure "$driver" rate memcpy "$(of "$line" bytes)" "$(calc "1000 * $(of "$line" gb_per_s)")"
        done
    done < <(limit_copy --core 0 --sizes "$1")
}

# ucx TEST BYTES ITERATIONS WARMUP: TEST latency, rate or first, over rxe
ucx() {
    local line test=tag_lat
    [[ $1 != rate ]] || test=tag_bw
    line="$UCX/bin/ucx_perftest -p 13337 $VM_RXE_PEER -t $test -s $2 -n $3 -w $4 -f"
    turn UCX "$1" "$UCX/bin/ucx_perftest -p 13337" "$line" || return 0
    case $1 in
    # a bandwidth test's MB are 2^20 bytes
    rate) figure rxe rate UCX "$2" "$(calc "$(field 6) * 1.048576")" ;;
    latency) figure rxe latency UCX "$2" "$(field 2)" ;;
    first) figure rxe first UCX "$2" "$(field 4)" ;;
    esac
}
