#!/usr/bin/env bash
# Does the gate tell the truth on this machine? Sessions of the reference service against itself,
# which must pass, and against itself behind a delay of 20 % of its median p95, which must fail. Each
# session is 10 pairs of 2 000 requests per endpoint of the scenario usage-check, on private servers,
# by 10 users: with 20 on two cores, what a session measures is mostly how they queue.
#
#     bench-harness/scripts/gate_truth.sh [SAME] [SLOWER] [OUT.md]      default 40 20
#
# It goes on where it was interrupted: whole sessions stay in KEEP (default target/gate-truth), and
# those that are there count. PROGRAMS is the folder of unstall, unstall-reference and
# unstall-testbed (default target/release); REQUESTS and PAIRS make shorter sessions to try it with.
# Exits 1 if a bar isn't met: of 40 at most 1 regression and at least 30 passes; of 20 at least 18
# regressions and no pass; in proportion for other numbers. A session may take 100 s at most.
set -euo pipefail
export LC_ALL=C
cd "$(dirname "$0")/../.."

same=${1:-40}
slower=${2:-20}
out=${3:-results/recorded/gate-truth.md}
target=${CARGO_TARGET_DIR:-target}
programs=$(realpath "${PROGRAMS:-$target/release}")
keep=${KEEP:-$target/gate-truth}
requests=${REQUESTS:-2000}
pairs=${PAIRS:-10}
seconds_max=100
users=10
# The scenario sends one of its requests each time, by chance.
endpoints=2
# Before the service in both versions, so that nothing but the delay differs.
round_trip_us=500

for number in "$same" "$slower" "$requests" "$pairs"; do
    [[ $number =~ ^[1-9][0-9]*$ ]] || {
        echo "gate_truth: \`$number\` is no whole number from 1 on" >&2
        exit 2
    }
done
for program in unstall unstall-reference unstall-testbed; do
    [ -x "$programs/$program" ] || {
        echo "gate_truth: $programs/$program is not there; build it with" >&2
        echo "  cargo build --release -p unstall-bench-harness -p unstall-reference-service -p unstall-testbed" >&2
        exit 2
    }
done
for tool in jq psql; do
    command -v "$tool" >/dev/null || {
        echo "gate_truth: $tool is needed; install it (Debian: jq, postgresql-client)" >&2
        exit 2
    }
done
mkdir -p "$keep" "$(dirname "$out")"

servers=
trap '[ -z "$servers" ] || { kill "$servers" 2>/dev/null; wait "$servers" 2>/dev/null; } || true' EXIT
# What an earlier run has left there would be taken for an answer.
: >"$keep/servers"
"$programs/unstall-testbed" >"$keep/servers" &
servers=$!
for ((wait = 0; wait < 300; wait++)); do
    grep -q Ctrl-C "$keep/servers" && break
    kill -0 "$servers" || { echo "gate_truth: the private servers did not start" >&2; exit 2; }
    sleep 0.1
done
admin=$(sed -n 's/^DATABASE_URL=//p' "$keep/servers")
redis=$(sed -n 's/^REDIS_URL=//p' "$keep/servers")
database() { # name: the same server, another database
    echo "${admin%/*}/$1"
}
psql --quiet "$admin" -c 'CREATE DATABASE truth_template'
"$programs/unstall-reference" migrate --database-url "$(database truth_template)" >&2
"$programs/unstall-reference" seed --database-url "$(database truth_template)" --redis-url "$redis" >&2
# Every block starts from the same rows.
reset="psql --quiet '$admin' -c 'DROP DATABASE IF EXISTS truth WITH (FORCE)' -c 'CREATE DATABASE truth TEMPLATE truth_template'"

version() { # round trip in µs: the command of a version that far away
    # The port is the proxy's; the service finds its own one in UNSTALL_PORT.
    echo "'$programs/unstall-testbed' proxied {port} $1 '$programs/unstall-reference' --mode async \
--database-url '$(database truth)' --redis-url '$redis'"
}

measure() { # name, command after, file
    "$programs/unstall" ab usage-check --before "$(version "$round_trip_us")" --after "$2" \
        --pairs "$pairs" --requests $((requests * endpoints)) -c "$users" --before-block "$reset" \
        --seed "$1" --out "$3" --force --json
}

# Verdict, seconds and worst p95 (median over blocks of the first version, ms) of a session.
declare -A count
rows=
longest=0
session() { # kind, index, µs more
    local kind=$1 index=$2 file="$keep/$1-$2.json" told="$keep/$1-$2.told"
    if [ ! -s "$told" ]; then
        local begun=$SECONDS code=0
        measure "$index" "$(version $((round_trip_us + $3)))" "$file" >"$told.json" 2>"$told.err" || code=$?
        case $code in
            0 | 1 | 3 | 4) ;;
            *)
                echo "gate_truth: $kind session $index ended with $code:" >&2
                tail -5 "$told.err" >&2
                exit 2
                ;;
        esac
        jq -e '.comparisons | length == 1' "$told.json" >/dev/null || {
            echo "gate_truth: $kind session $index was not judged: $(tail -3 "$told.err")" >&2
            exit 2
        }
        local verdict
        verdict=$(jq -r '.verdict' "$told.json")
        echo "$verdict $((SECONDS - begun)) $3" >"$told"
        if [ "$kind/$verdict" = same/regression ] || [ "$kind/$verdict" = slower/pass ]; then
            # The evidence of a wrong answer is worth more than a count.
            jq '.comparisons[0] | {headline, reasons, validity}' "$told.json" >&2
        fi
    fi
    local verdict seconds more
    read -r verdict seconds more <"$told"
    count[$kind/$verdict]=$((${count[$kind/$verdict]:-0} + 1))
    rows+="| $kind | $index | +$more µs | $verdict | $seconds |"$'\n'
    [ "$seconds" -le "$longest" ] || longest=$seconds
    echo "$kind $index: $verdict, $seconds s" >&2
}

for ((index = 1; index <= same; index++)); do
    session same "$index" 0
done
# Decided once, by the sessions of the same version, so that going on adds nothing else.
if [ ! -s "$keep/added_us" ]; then
    jq -s '[.[].comparisons[0].cells[] | select(.metric == "response_p95") | .before.value]
        | sort | .[(length / 2 | floor)] * 200 | round' "$keep"/same-*.told.json >"$keep/added_us"
fi
added=$(cat "$keep/added_us")
for ((index = 1; index <= slower; index++)); do
    session slower "$index" "$added"
done

of() { echo "${count[$1]:-0}"; }
{
    echo "# The gate on a real service"
    echo
    echo "Sessions of \`unstall ab usage-check\`, $pairs pairs of some $requests requests per endpoint by $users users, by"
    echo "\`bench-harness/scripts/gate_truth.sh\`: the reference service against itself, and against itself behind a"
    echo "delay of $added µs more, which is 20 % of the first version's median p95."
    echo
    echo "| versions | sessions | pass | inconclusive | regression | invalid |"
    echo "|---|---|---|---|---|---|"
    echo "| the same | $same | $(of same/pass) | $(of same/inconclusive) | $(of same/regression) | $(of same/invalid) |"
    echo "| +20 % | $slower | $(of slower/pass) | $(of slower/inconclusive) | $(of slower/regression) | $(of slower/invalid) |"
    echo
    echo "Measured $(date -u +%Y-%m-%d) on $(uname -sm), $(nproc) cores, kernel $(uname -r)," \
        "$("$programs/unstall" --version), commit $(git rev-parse --short HEAD);" \
        "the longest session took $longest s; load average at the end $(cut -d' ' -f1 /proc/loadavg)."
    echo
    echo "| versions | session | delay | verdict | seconds |"
    echo "|---|---|---|---|---|"
    printf '%s' "$rows"
} >"$out"
echo "written to $out" >&2

missed=0
bar() { # what, whether it holds
    [ "$2" -eq 1 ] || { echo "gate_truth: $1" >&2; missed=1; }
}
bar "more than 1 of 40 sessions of the same version alarmed" $(($(of same/regression) * 40 <= same + 39))
bar "fewer than 30 of 40 sessions of the same version passed" $(($(of same/pass) * 40 >= same * 30))
bar "fewer than 18 of 20 sessions with 20 % more alarmed" $(($(of slower/regression) * 20 >= slower * 18))
bar "a session with 20 % more passed" $(($(of slower/pass) == 0))
bar "a session took longer than $seconds_max s" $((longest <= seconds_max))
exit "$missed"
