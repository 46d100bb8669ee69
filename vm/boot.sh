# Sourced by vm/run: starts a guest, and says how it ended.
# shellcheck shell=bash disable=SC2034,SC2054,SC2154

# An emulated CPU is the rule. Its string instructions are slow where it says that they are fast; la57, smap and smep only
# make it work more.
accelerator() {
    if [[ -r /dev/kvm && -w /dev/kvm ]] && grep -qwE 'vmx|svm' /proc/cpuinfo; then
        echo kvm
    else
        echo tcg
    fi
}

# export_line NAME VALUE
export_line() { printf 'export %s=%q\n' "$1" "$2"; }

# environment HOST: what guest/start and the command have
environment() {
    local self=$1 peer=$((hosts == 1 ? 1 : 3 - $1)) variable
    export_line PATH "$vm/guest/bin:$PATH:/usr/sbin:/sbin"
    export_line HOME "$HOME"
    export_line LC_ALL "$LC_ALL"
    export_line TERM dumb
    export_line VM_GUEST "$vm/guest"
    export_line VM_HOSTS "$hosts"
    export_line VM_HOST "$self"
    export_line VM_PEER "$peer"
    driver_environment RXE rxe0 1
    driver_environment SIW siw0 2
    for variable in "${variables[@]}"; do
        if [[ $variable == *=* ]]; then
            export_line "${variable%%=*}" "${variable#*=}"
        elif [[ -v $variable ]]; then
            export_line "$variable" "${!variable}"
        fi
    done
}

driver_environment() { # NAME DEVICE NET
    export_line "VM_$1" "$2"
    export_line "VM_$1_ADDRESS" "10.77.$3.$self"
    export_line "VM_$1_ADDRESS6" "fd00:77:$3::$self"
    export_line "VM_$1_PEER" "10.77.$3.$peer"
    export_line "VM_$1_PEER6" "fd00:77:$3::$peer"
}

# label HOST: each line says which host it is from, where there are two
label() {
    if [[ $hosts == 1 ]]; then
        exec cat
    else
        exec sed --unbuffered "s/^/host $1: /"
    fi
}

# What a guest is made of beside CPUs and memory; each adds to $devices.

share_device() { # TAG DIRECTORY OPTION...
    devices+=(-fsdev "local,id=$1,path=${2//,/,,},security_model=none${3:-}" -device "virtio-9p-pci,fsdev=$1,mount_tag=$1")
}

port_device() { # HOST NAME NUMBER
    devices+=(-chardev "file,id=$2,path=$1/$2" -device "virtserialport,chardev=$2,nr=$3,name=$2")
}

# Sockets have names relative to $work, since no long one can be bound.
card_device() { # HOST NAME NUMBER
    devices+=(
        -netdev "dgram,id=$2,local.type=unix,local.path=$1.$2,remote.type=unix,remote.path=$((3 - $1)).$2"
        -device "virtio-net-pci,netdev=$2,host_mtu=9000,speed=10000,duplex=full,mac=52:54:00:77:0$3:0$1"
    )
}

# node_devices: two memory nodes, each with half of the memory and of the CPUs, which are a socket of their own
node_devices() {
    local node half=$((cpus / 2))
    cpus=$((2 * half))
    local cpus_of=("0-$((half - 1))" "$half-$((cpus - 1))")
    for node in 0 1; do
        devices+=(-object "memory-backend-ram,id=node$node,size=$((memory / 2))M")
        devices+=(-numa "node,nodeid=$node,memdev=node$node,cpus=${cpus_of[node]}")
    done
}

# boot HOST LINE: a guest in the background, until $deadline at most, and readers of its output
boot() {
    local host=$1 line=$2 devices=() index cpu rate left=$((deadline - SECONDS))
    mkdir "$work/$host"
    {
        environment "$host"
        printf '. %q\n' "$vm/guest/start"
    } >"$work/$host/start"
    printf 'cd %q || exit\n%s\n' "$caller" "$line" >"$work/$host/command"

    share_device root / ,readonly=on,multidevs=remap
    share_device run "$work"
    for index in "${!shared[@]}"; do
        share_device "share$index" "${shared[index]}" ,multidevs=remap
    done
    if [[ $hosts == 2 ]]; then
        card_device "$host" rxe 1
        card_device "$host" siw 2
    fi
    [[ $nodes == 1 ]] || node_devices
    port_device "$host" stdout 1
    port_device "$host" stderr 2
    mkfifo "$work/$host/stdout" "$work/$host/stderr"
    label "$host" <"$work/$host/stdout" &
    readers+=($!)
    label "$host" <"$work/$host/stderr" >&2 &
    readers+=($!)

    case ${SUPERPIPE_VM_ACCEL:-$(accelerator)} in
    kvm)
        cpu=(-accel kvm -cpu host)
        rate=
        ;;
    *)
        cpu=(-accel tcg,thread=multi -cpu max,la57=off,erms=off,fsrm=off,smap=off,smep=off)
        # The counter of an emulated CPU is that of the host. A guest's kernel measures its rate beside emulated timers, and on a busy host
        # it found a fifth of it: the guest's clock then goes five times too fast.
        rate=$("$guest/tsc-khz")
        ;;
    esac
    # whoever is killed, by whatever signal, takes along what it started
    (
        cd "$work" || exit
        exec setpriv --pdeathsig TERM timeout --kill-after 2 "$((left > 0 ? left : 1))" setpriv --pdeathsig KILL \
            qemu-system-x86_64 -no-user-config -nodefaults -machine q35 "${cpu[@]}" -smp "$cpus,sockets=$nodes" -m "$((memory / nodes * nodes))" \
            -display none -no-reboot -serial "file:$host/console" \
            -kernel "$guest/vmlinux" -initrd "$guest/initramfs" -append "$(kernel_line "$host" "$rate")" \
            -device virtio-serial-pci,max_ports=4 "${devices[@]}"
    ) </dev/null >"$work/$host/qemu" 2>&1 &
    qemu[host]=$!
}

# await_up: until every guest is up, before which no command begins; or one will not be
await_up() {
    local host end=$((SECONDS + 60))
    for host in "${!qemu[@]}"; do
        until [[ -e $work/$host/up ]]; do
            kill -0 "${qemu[host]}" 2>/dev/null && ((SECONDS < end)) || return 1
            sleep 0.1
        done
    done
}

# A kernel that fails ends the guest at once, and what blocks for 30 s in it is printed on the console. What waits for
# hardware or guards against strangers is left out.
kernel_line() { # HOST [KHZ]
    echo "superpipe.host=$1 console=ttyS0 loglevel=5 panic=-1 oops=panic sysrq_always_enabled=1" \
        "sysctl.kernel.hung_task_timeout_secs=30" \
        "nokaslr mitigations=off nowatchdog audit=0 random.trust_cpu=on tsc=reliable clocksource=tsc no_timer_check${2:+ tsc_early_khz=$2}"
}

# outcome HOST STATUS: sets $result from what the guest left and timeout's status, and says what there is to say
outcome() {
    local host=$1 ended=$2 console_file=$work/$1/console name panic lost=1
    name=$([[ $hosts == 1 ]] && echo "the guest" || echo "host $host")
    # one that was ended as it began has neither
    touch "$console_file" "$work/$host/qemu"
    panic=$(grep -aoE -m 1 'Kernel panic.*' "$console_file" | tr -d '\r') || true
    if [[ -n $panic ]]; then
        result=$panicked
        say "vm/run: $name: $panic" >&2
    elif [[ ! -e $work/$host/up && $SECONDS -lt $deadline ]]; then
        result=$died
        say "vm/run: $name was not up in time; QEMU's exit code was $ended" >&2
        cat "$work/$host/qemu" >&2
    elif [[ $ended == 124 || $ended == 137 ]]; then
        result=$overdue
        say "vm/run: $name did not end within $timeout s" >&2
    elif [[ -e $work/$host/status ]]; then
        result=$(<"$work/$host/status")
        lost=
        [[ $hosts == 1 ]] || say "vm/run: $name ended with $result" >&2
    else
        result=$died
        say "vm/run: $name ended without an exit code; QEMU's was $ended" >&2
        cat "$work/$host/qemu" >&2
    fi
    if [[ -n $console ]]; then
        cat "$console_file" >&2
    elif [[ -n $lost ]]; then
        say "the last lines of its console:" >&2
        tail -n 60 "$console_file" >&2
    fi
}
