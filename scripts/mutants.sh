#!/usr/bin/env bash
# Breaks core, the driver and the shells on purpose, one place at a time (cargo-mutants), and counts what the tests catch.
#
#   PART=core|driver|blocking|shm|rdma   only this part; several with spaces between; all by default
#   SHARD=k/n                            only every n-th mutant, from the k-th on, k from 0: a sample
#
# Quick tests run on each mutant first, and all tests of its package on the survivors. Survivors that are equivalent to the original
# are listed in scripts/mutants-equivalent.txt and do not count in the share (docs/testing.md).
. "$(dirname "$0")/lib.sh"

version=27.1.0
equivalent=scripts/mutants-equivalent.txt
parts=${PART:-driver core blocking shm rdma}

# Built quickly: a mutant is built once and run for a second.
export CARGO_INCREMENTAL=1 CARGO_PROFILE_TEST_OPT_LEVEL=0 CARGO_PROFILE_TEST_DEBUG=0 CARGO_PROFILE_DEV_DEBUG=0

# describe PART: files, package, floor in percent, features without which some of it is not built, arguments and filters of
# the quick tests
describe() {
    features=()
    case $1 in
    driver)
        files=(-f 'core/src/driver/**')
        package=superpipe-core floor=97
        quick=(--lib --test protocol)
        filters=(driver:: setup:: half_open:: --skip driver::model:: --skip driver::vast:: --skip properties)
        ;;
    core)
        files=(-f 'core/src/**' -e 'core/src/driver/**')
        package=superpipe-core floor=97
        quick=(--lib --test protocol)
        filters=(--skip driver::model:: --skip driver::vast:: --skip setup:: --skip properties)
        ;;
    blocking) files=(-f 'ffi/blocking/**') ;;&
    shm) files=(-f 'ffi/fabric/shm/**') ;;&
    rdma) files=(-f 'ffi/fabric/rdma/**') ;;&
    blocking | shm | rdma)
        package=superpipe floor=92 features=(--features recorder)
        quick=(--lib)
        # They take seconds each, and test other parts. They run on the survivors.
        filters=(--skip copy:: --skip os:: --skip lets_nobody_sleep --skip let_nobody_sleep --skip no_wake_up_is_lost)
        ;;
    *) die "PART=$1 is none of core, driver, blocking, shm and rdma" ;;
    esac
}

# mutate DIRECTORY TIMEOUT_S TEST_ARGUMENT.. [-- FILTER..]: breaks what `selected` selects
mutate() {
    local out=$1 timeout=$2 status=0 arguments=()
    shift 2
    while [[ $# -gt 0 && $1 != -- ]]; do
        arguments+=("--cargo-arg=$1")
        shift
    done
    # The first -- ends our arguments. A second one would make names of the filters, which select tests instead of skipping them.
    [[ $# -eq 0 ]] || shift
    rm -rf "$out"
    mkdir -p "$out"
    # Survivors (2) and timeouts (3) are results.
    cargo mutants -p "$package" "${features[@]}" "${selected[@]}" -j1 --output "$out" --timeout "$timeout" --caught --unviable \
        "${arguments[@]}" -- "$@" || status=$?
    [[ $status -eq 0 || $status -eq 2 || $status -eq 3 ]] || die "cargo mutants failed"
}

# count FILE..: lines in those that exist, or in what is piped in
count() { cat "$@" 2>/dev/null | grep -c . || true; }

# keys: of mutants as cargo-mutants names them (FILE:LINE:COLUMN: WHAT), what stays the same when lines move
keys() {
    local file line what
    while IFS= read -r name; do
        file=${name%%:*} line=${name#*:}
        what=${line#*: } line=${line%%:*}
        printf '%s: %s | %s\n' "$file" "$what" "$(sed -n "${line}s/^ *//p" "$file")"
    done
}

# listed: the keys in the list of equivalents. An entry is a mutant, below it its line, and below that the reason.
listed() { awk '/^#/ || NF == 0 { next } /^[^ ]/ { name = $0; at = 0; next } { at++ } at == 1 { sub(/^ +/, ""); print name " | " $0 }' "$equivalent"; }

survivors_of() { if [[ -e $1/mutants.out/missed.txt ]]; then cat "$1/mutants.out/missed.txt"; fi; }

judge() {
    local part=$1 first second known unknown
    describe "$part"
    first=$target/mutants/$part/quick second=$target/mutants/$part/all
    selected=("${files[@]}" ${SHARD:+--shard "$SHARD" --sharding round-robin})
    rm -rf "$second"
    mutate "$first" 60 "${quick[@]}" -- -- "${filters[@]}"
    if [[ -s $first/mutants.out/missed.txt ]]; then
        selected=()
        while IFS= read -r name; do
            selected+=(-f "${name%%:*}" --re "^$(sed -E 's/[][\\.^$*+?(){}|]/\\&/g' <<<"$name")\$")
        done <"$first/mutants.out/missed.txt"
        mutate "$second" 300 --lib --tests --
        # cargo-mutants 27.1 also tries every deleted field of these files, whatever --re says: they were judged before.
        for result in caught missed timeout; do
            grep -Fxf "$first/mutants.out/missed.txt" "$second/mutants.out/$result.txt" >"$second/$result.txt" || true
            mv "$second/$result.txt" "$second/mutants.out/$result.txt"
        done
    fi

    local caught timeouts unviable survivors
    caught=$(count {"$first","$second"}/mutants.out/caught.txt)
    timeouts=$(count {"$first","$second"}/mutants.out/timeout.txt)
    unviable=$(count "$first/mutants.out/unviable.txt")
    survivors=$(count "$second/mutants.out/missed.txt")
    # An entry of the list stands for one survivor.
    known=$(comm -12 <(survivors_of "$second" | keys | sort) <(listed | sort))
    unknown=$(comm -23 <(survivors_of "$second" | keys | sort) <(listed | sort))
    local equivalents judged tenths=1000
    equivalents=$(count <<<"$known")
    judged=$((caught + timeouts + survivors - equivalents))
    if [[ $judged -gt 0 ]]; then
        tenths=$(((caught + timeouts) * 1000 / judged))
    elif [[ -z ${SHARD:-} ]]; then
        # A sample may have no mutant of a part. A whole part that has none names no file any more, or none of them was built.
        tenths=0
    fi
    printf '%-8s %8d %9d %7d %9d %10d %11d %7d.%d %% %5d %%\n' "$part" $((caught + timeouts + survivors)) "$unviable" "$caught" "$timeouts" \
        "$survivors" "$equivalents" $((tenths / 10)) $((tenths % 10)) "$floor" >>"$table"
    if [[ -n $unknown ]]; then
        printf 'survived in %s, and not listed as equivalent:\n%s\n' "$part" "$unknown" >>"$rest"
    fi
    if [[ $tenths -lt $((floor * 10)) ]]; then
        printf 'too few are caught in %s: %d.%d %% of %d that were judged, and the floor is %d %%\n' \
            "$part" $((tenths / 10)) $((tenths % 10)) "$judged" "$floor" >>"$short"
    fi
}

need_rust
if [[ $(cargo mutants --version 2>/dev/null) != "cargo-mutants $version" ]]; then
    say "installing cargo-mutants $version"
    cargo install --locked cargo-mutants --version "$version"
fi
target=$(target_dir)
mkdir -p "$target/mutants"
table=$target/mutants/table.txt rest=$target/mutants/survivors.txt short=$target/mutants/short.txt
rm -f "$rest" "$short"
printf '%-8s %8s %9s %7s %9s %10s %11s %11s %7s\n' part mutants unviable caught timeouts survivors equivalent share floor >"$table"
for part in $parts; do
    judge "$part"
done
for result in "$rest" "$table" "$short"; do
    if [[ -e $result ]]; then
        printf '\n'
        cat "$result"
    fi
done
[[ ! -e $short ]]
