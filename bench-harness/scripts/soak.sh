#!/usr/bin/env bash
# Whether the load engine drifts: an open load and a closed one for ten minutes each (or as long as
# you say) against a server that does nothing, looking at the process every few seconds. Memory and
# descriptors must stay where they were after the first tenth, and arrivals must go out no later at
# the end than at the beginning. Prints a table and a verdict; exits 1 if something drifts.
#
#     bench-harness/scripts/soak.sh [SECONDS [open|closed]]      default 600, and both
set -euo pipefail
export LC_ALL=C
root=$(cd "$(dirname "$0")/../.." && pwd)
seconds=${1:-600}
[[ $seconds =~ ^[0-9]+$ ]] && [ "$seconds" -ge 20 ] || {
    echo "soak: SECONDS is a whole number from 20 on" >&2
    exit 2
}
models=${2:-open closed}
[[ $models =~ ^(open|closed|open\ closed)$ ]] || {
    echo "soak: '$models' is no load; give open or closed, or nothing for both" >&2
    exit 2
}

# Where lateness is compared, in µs: this much more at the end is drift. A machine that others use
# too is late at times, and that comes and goes.
late_more_us_max=500
# Both ends of the connections of 20 users are in this process, and they are opened when that many
# are busy at once for the first time. A leak is far beyond it.
descriptors_more_max=40
# Growth of memory after the first tenth, in KiB, that is no drift: allocators settle.
memory_more_kib_max=2048

cd "$root"
# SOAK_LOAD names the example where it is built already.
program=${SOAK_LOAD:-}
if [ -z "$program" ]; then
    cargo build --locked --release --quiet -p unstall-bench-harness --example soak_load
    program=$(cargo metadata --no-deps --format-version 1 | sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p')/release/examples/soak_load
fi
folder=$(mktemp -d)
child=
trap '[ -z "$child" ] || kill "$child" 2>/dev/null || true; rm -rf "$folder"' EXIT

# Resident memory in KiB and open descriptors of a process, one line per look.
look() { # pid
    local memory descriptors
    memory=$(awk '/^VmRSS:/ { print $2 }' "/proc/$1/status" 2>/dev/null) || return 1
    descriptors=$(find "/proc/$1/fd" -mindepth 1 2>/dev/null | wc -l)
    [ -n "$memory" ] && echo "$memory $descriptors"
}

soak() { # open|closed
    local looks=$folder/$1.looks
    "$program" "$1" "$seconds" >"$folder/$1.lateness" &
    child=$!
    while kill -0 "$child" 2>/dev/null; do
        # First it has to have begun: what a process holds while it starts is no measure.
        sleep 1
        look "$child" >>"$looks" || true
    done
    wait "$child" || { child=; echo "soak: the $1 load failed" >&2; exit 1; }
    child=
}

# Most memory and descriptors of the looks between two shares of the time.
most() { # looks, column, from, to
    awk -v column="$2" -v from="$3" -v to="$4" '
        { line[NR] = $column }
        END {
            for (i = int(NR * from) + 1; i <= NR * to; i++) if (line[i] > most) most = line[i]
            print most + 0
        }' "$1"
}

drifts=0
say() { # what, before, after, allowed
    local verdict=flat
    if [ "$(($3 - $2))" -gt "$4" ]; then
        verdict=DRIFTS
        drifts=1
    fi
    printf '| %s | %s | %s | %s |\n' "$1" "$2" "$3" "$verdict"
}

printf '| what | first tenth | last tenth | |\n|---|---|---|---|\n'
for model in $models; do
    soak "$model"
    # The last look may see a process that is ending.
    sed -i '$d' "$folder/$model.looks"
    say "$model: memory, KiB" "$(most "$folder/$model.looks" 1 0.02 0.1)" \
        "$(most "$folder/$model.looks" 1 0.9 1)" "$memory_more_kib_max"
    say "$model: descriptors" "$(most "$folder/$model.looks" 2 0.02 0.1)" \
        "$(most "$folder/$model.looks" 2 0.9 1)" "$descriptors_more_max"
done
if [ -e "$folder/open.lateness" ]; then
    read -r first last <"$folder/open.lateness"
    say "open: median response, µs" "$first" "$last" "$late_more_us_max"
fi
if [ "$drifts" -eq 0 ]; then
    echo "soak: nothing drifts in $seconds s of load: $models"
else
    echo "soak: something DRIFTS, see the table" >&2
    exit 1
fi
