#!/usr/bin/env bash
# The load engine beside wrk, oha, h2load and k6: the same server, in turn, medians of pairs.
#
#   bench-harness/scripts/compare_generators.sh [--rounds N] [--seconds S] [PART…]
#
# Parts: small/1 small/50 small/1000 large/1 large/50 large/1000 stream/50, which print throughput
# and CPU per request, and memory/50 memory/1000, which print the peak memory after 10 s and 60 s;
# small, large, stream and memory stand for all of theirs, and no part at all for everything (about
# twenty minutes). The body is 15 bytes, 100 kB, or a stream of 200 events, which every tool reads to
# its end and only unstall reads event by event.
#
# In each round every tool runs once, each time another one first; its ratio to wrk is that of the
# same round. CPU is user and system time of the whole process, its start included, over requests
# that were answered. What unstall does before any load (for half a second it measures what this
# machine can do at most) doesn't grow with the load: each round measures it by a run of one request
# per user, leaves it out and prints it below. The server is one nginx worker. wrk and h2load have one thread, oha is told
# to have one, and unstall and k6 choose.
#
# Needs nginx and wrk; h2load (nghttp2-client), oha and k6 are taken along when they are on PATH, or
# named by H2LOAD, OHA and K6; UNSTALL names a built program instead of building this checkout.
# Everything stays on loopback and ends with the script.
set -euo pipefail

rounds=5
seconds=3
parts=()
while [ $# -gt 0 ]; do
    case $1 in
    --rounds) rounds=${2:?} && shift ;;
    --seconds) seconds=${2:?} && shift ;;
    small | large) parts+=("$1/1" "$1/50" "$1/1000") ;;
    stream) parts+=(stream/50) ;;
    memory) parts+=(memory/50 memory/1000) ;;
    small/1 | small/50 | small/1000 | large/1 | large/50 | large/1000 | stream/50 | memory/50 | memory/1000)
        parts+=("$1") ;;
    *) echo "there is no part or option $1; the parts: small large stream memory, or one of them like small/50" >&2 && exit 2 ;;
    esac
    shift
done
[ ${#parts[@]} -gt 0 ] || parts=(small/{1,50,1000} large/{1,50,1000} stream/50 memory/{50,1000})

root=$(cd "$(dirname "$0")/../.." && pwd)
nginx=$(command -v nginx || echo /usr/sbin/nginx)
for needed in "$nginx" wrk python3; do
    command -v "$needed" >/dev/null || { echo "$needed is missing: apt-get install nginx-light wrk python3" >&2; exit 2; }
done
h2load=${H2LOAD:-$(command -v h2load || true)}
oha=${OHA:-$(command -v oha || true)}
k6=${K6:-$(command -v k6 || true)}
tools=(wrk unstall)
[ -z "$oha" ] || tools+=(oha)
[ -z "$h2load" ] || tools+=(h2load)
[ -z "$k6" ] || tools+=(k6)
# 1 000 connections, and what else is open.
ulimit -n "$(ulimit -Hn)"

[ -n "${UNSTALL:-}" ] || (cd "$root" && cargo build --release --quiet -p unstall-bench-harness --bin unstall)
unstall=${UNSTALL:-${CARGO_TARGET_DIR:-$root/target}/release/unstall}

folder=$(mktemp -d)
# The worker of an nginx that root starts is nobody, and has to read the files.
chmod 755 "$folder"
server=
tool_running=
cleanup() {
    for process in $tool_running $server; do
        kill "$process" 2>/dev/null || true
        wait "$process" 2>/dev/null || true
    done
    rm -rf "$folder"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

serve() {
    local port=$((20000 + RANDOM % 12000))
    mkdir "$folder/files"
    head -c 100000 /dev/zero | tr '\0' x >"$folder/files/large"
    python3 -c 'for n in range(200): print(f"data: {{\"message\": \"word {n} \"}}\n")' >"$folder/files/stream"
    cat >"$folder/nginx.conf" <<CONF
worker_processes 1;
daemon off;
pid $folder/nginx.pid;
error_log $folder/error.log;
worker_rlimit_nofile 8192;
events { worker_connections 4096; }
http {
    access_log off;
    keepalive_requests 100000000;
    sendfile on;
    tcp_nopush on;
    open_file_cache max=10;
    client_body_temp_path $folder/body;
    proxy_temp_path $folder/proxy;
    fastcgi_temp_path $folder/fastcgi;
    uwsgi_temp_path $folder/uwsgi;
    scgi_temp_path $folder/scgi;
    server {
        listen 127.0.0.1:$port backlog=4096;
        root $folder/files;
        location = /small { default_type application/json; return 200 '{"status":"ok"}'; }
        location = /large { default_type text/plain; }
        location = /stream { default_type text/event-stream; }
    }
}
CONF
    "$nginx" -p "$folder" -c "$folder/nginx.conf" 2>>"$folder/stderr" &
    server=$!
    url=http://127.0.0.1:$port
    for _ in $(seq 50); do
        (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null && return
        sleep 0.1
    done
    echo "nginx doesn't answer:" >&2
    cat "$folder/stderr" >&2
    exit 1
}

scenario() { # body
    printf 'name = "%s"\n[[request]]\nname = "GET"\nmethod = "GET"\npath = "/%s"\nexpect = { status = 200 }\n' "$1" "$1"
    [ "$1" != stream ] || printf 'stream = { decoder = "sse", complete = { items_min = 200 } }\n'
}

# Makes the array `command` and the environment for a tool, a body, connections and seconds.
command_of() { # tool, body, connections, seconds; 0 seconds: one request per user, of unstall only
    local tool=$1 body=$2 connections=$3 time=$4 amount
    case $tool in
    wrk) command=(wrk -t1 -c"$connections" -d"${time}s" "$url/$body") ;;
    unstall)
        scenario "$body" >"$folder/$body.toml"
        rm -f "$folder/record.json"
        amount=(--duration "${time}s")
        [ "$time" != 0 ] || amount=(--requests "$connections")
        command=("$unstall" run "$folder/$body.toml" --target "$url" -c "$connections" --warmup 0
            "${amount[@]}" --json --out "$folder/record.json")
        ;;
    oha) command=(env TOKIO_WORKER_THREADS=1 "$oha" -z "${time}s" -c "$connections" --no-tui "$url/$body") ;;
    h2load) command=("$h2load" --h1 -t1 -c"$connections" -D"$time" "$url/$body") ;;
    k6)
        printf 'import http from "k6/http";\nexport default function () { http.get("%s"); }\n' "$url/$body" >"$folder/k6.js"
        command=("$k6" run --quiet --no-usage-report --vus "$connections" --duration "${time}s" "$folder/k6.js")
        ;;
    esac
}

# Prints how many requests were answered with 200, from what a tool said.
answered() { # tool, file
    case $1 in
    wrk)
        ! grep -q 'Non-2xx' "$2" || return 1
        awk '/requests in/ { print $1 }' "$2"
        ;;
    # Of the record: a block that spoilt itself by coming late has sent its requests all the same.
    unstall) python3 -c '
import json, sys
blocks = json.load(sys.stdin)["blocks"]
assert not any(block["errors"] or block["local_faults"] for block in blocks), blocks
print(sum(block["completed"] for block in blocks))' <"$folder/record.json" ;;
    oha) awk '/\[200\]/ { print $2 }' "$2" ;;
    h2load) awk '/^status codes:/ { print $3 }' "$2" ;;
    k6) awk '/http_reqs/ { print $2 }' "$2" ;;
    esac
}

# Runs a tool once, and leaves "wall, user, system" seconds in the file `time`.
run_once() { # tool, body, connections, seconds
    local tool=$1 out=$folder/$1.out status=0
    command_of "$tool" "$2" "$3" "$4"
    TIMEFORMAT='%R %U %S'
    { time "${command[@]}" >"$out" 2>"$out.errors"; } 2>"$folder/time" || status=$?
    case $tool/$status in
    */0) ;;
    unstall/3) grep -h invalid "$out.errors" >&2 || true ;;
    *)
        echo "$tool failed:" >&2
        cat "$out" "$out.errors" >&2
        exit 1
        ;;
    esac
}

# One run of a tool: adds a line "requests/s, user µs, system µs" to its list.
measure() { # tool, body, connections
    local tool=$1 out=$folder/$1.out count fixed="0 0 0"
    if [ "$tool" = unstall ]; then
        run_once "$tool" "$2" "$3" 0
        fixed=$(cat "$folder/time")
        echo "$fixed" >>"$folder/fixed.list"
    fi
    run_once "$tool" "$2" "$3" "$seconds"
    count=$(answered "$tool" "$out") && [ "${count:-0}" -gt 0 ] || {
        echo "$tool didn't get what it asked for:" >&2
        cat "$out" "$out.errors" >&2
        exit 1
    }
    awk -v count="$count" -v fixed="$fixed" 'END {
        split(fixed, before, " ")
        printf "%.0f %.3f %.3f\n", count / ($1 - before[1]),
            ($2 - before[2]) * 1e6 / count, ($3 - before[3]) * 1e6 / count
    }' "$folder/time" >>"$folder/$tool.list"
}

compare() { # body, connections
    local round turn tool
    rm -f "$folder"/*.list
    for round in $(seq "$rounds"); do
        for turn in "${!tools[@]}"; do
            tool=${tools[(turn + round) % ${#tools[@]}]}
            measure "$tool" "$1" "$2"
        done
        echo "$1, $2 connections: round $round of $rounds done" >&2
    done
    printf '\n**%s, %s connections at once**\n\n' "$(body_name "$1")" "$2"
    echo '| generator | requests/s | CPU per request, µs (lowest–highest) | user + system | × wrk, CPU | × wrk, requests/s |'
    echo '|---|---|---|---|---|---|'
    for tool in "${tools[@]}"; do
        paste -d' ' "$folder/$tool.list" "$folder/wrk.list" | python3 -c '
import statistics, sys
rows = [[float(word) for word in line.split()] for line in sys.stdin]
median = lambda values: statistics.median(list(values))
cpu = [row[1] + row[2] for row in rows]
print(f"| {sys.argv[1]} | {median(row[0] for row in rows):.0f} "
      f"| {median(cpu):.2f} ({min(cpu):.2f}–{max(cpu):.2f}) "
      f"| {median(row[1] for row in rows):.2f} + {median(row[2] for row in rows):.2f} "
      f"| {median(one / (row[4] + row[5]) for one, row in zip(cpu, rows)):.2f} "
      f"| {median(row[0] / row[3] for row in rows):.2f} |")' "$tool"
    done
    awk '{ cpu += $2 + $3; wall += $1 } END {
        printf "\nBefore the load, left out above: unstall used %.2f s of CPU in %.2f s.\n", cpu / NR, wall / NR
    }' "$folder/fixed.list"
}

body_name() {
    case $1 in
    small) echo "15 bytes" ;;
    large) echo "100 kB" ;;
    stream) echo "200 events" ;;
    esac
}

# Peak memory of a process in MB, as the kernel keeps it.
peak_mb() { awk '/^VmHWM/ { printf "%.1f", $2 / 1024 }' "/proc/$1/status"; }

memory() { # connections
    local tool early late
    printf '\n**Peak memory, 15 bytes, %s connections**\n\n' "$1"
    printf '| generator | MB after 10 s | MB after 60 s |\n|---|---|---|\n'
    for tool in "${tools[@]}"; do
        command_of "$tool" small "$1" 62
        # Without `env`, which would be the process looked at.
        [ "$tool" != oha ] || command=("${command[@]:2}")
        TOKIO_WORKER_THREADS=1 "${command[@]}" >"$folder/$tool.out" 2>&1 &
        tool_running=$!
        sleep 10
        early=$(peak_mb "$tool_running")
        sleep 50
        late=$(peak_mb "$tool_running")
        wait "$tool_running"
        tool_running=
        printf '| %s | %s | %s |\n' "$tool" "$early" "$late"
        echo "memory of $tool at $1 connections done" >&2
    done
}

serve
for part in "${parts[@]}"; do
    case $part in
    memory/*) memory "${part#*/}" ;;
    *) compare "${part%/*}" "${part#*/}" ;;
    esac
done
printf '\nOne nginx worker on the same %s cores; medians of %s rounds of %s s.\n' "$(nproc)" "$rounds" "$seconds"
for missing in "oha ${oha:-none} (cargo install oha --locked)" "h2load ${h2load:-none} (Debian: nghttp2-client)" \
    "k6 ${k6:-none} (its own packages; name it by K6)"; do
    [[ $missing != *" none "* ]] || echo "Not measured, because it isn't installed: ${missing/ none/}."
done
