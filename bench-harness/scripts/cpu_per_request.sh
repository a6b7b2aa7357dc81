#!/usr/bin/env bash
# CPU per request of the load engine beside wrk's and oha's: the same server, one run,
# interleaved, medians. Whole-process user and system time over requests sent.
#
#   bench-harness/scripts/cpu_per_request.sh [ROUNDS] [REQUESTS]
#
# Needs nginx (the server: one worker, `return 200`) and wrk; oha is taken along when it
# is on PATH or named by OHA. Everything stays on loopback and is stopped at the end.
set -euo pipefail

rounds=${1:-5}
requests=${2:-200000}
users=50
root=$(cd "$(dirname "$0")/../.." && pwd)
oha=${OHA:-$(command -v oha || true)}
nginx=$(command -v nginx || echo /usr/sbin/nginx)
for needed in "$nginx" wrk; do
    command -v "$needed" >/dev/null || { echo "$needed is missing: apt-get install nginx-light wrk" >&2; exit 2; }
done

(cd "$root" && cargo build --release --quiet -p unstall-bench-harness --example closed_load)
engine="${CARGO_TARGET_DIR:-$root/target}/release/examples/closed_load"

folder=$(mktemp -d)
server=
cleanup() {
    [ -n "$server" ] && kill "$server" 2>/dev/null && wait "$server" 2>/dev/null
    rm -rf "$folder"
}
trap cleanup EXIT

port=$((20000 + RANDOM % 20000))
cat >"$folder/nginx.conf" <<CONF
worker_processes 1;
daemon off;
pid $folder/nginx.pid;
error_log $folder/error.log;
events { worker_connections 512; }
http {
    access_log off;
    keepalive_requests 100000000;
    client_body_temp_path $folder/body;
    proxy_temp_path $folder/proxy;
    fastcgi_temp_path $folder/fastcgi;
    uwsgi_temp_path $folder/uwsgi;
    scgi_temp_path $folder/scgi;
    server {
        listen 127.0.0.1:$port;
        location / { default_type application/json; return 200 '{"status":"ok"}'; }
    }
}
CONF
"$nginx" -p "$folder" -c "$folder/nginx.conf" 2>>"$folder/stderr" &
server=$!
url="http://127.0.0.1:$port/"
for _ in $(seq 50); do
    (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null && break
    sleep 0.1
done

# Prints the user and system seconds of a command; its output goes to a file.
cpu_of() {
    local out=$1
    shift
    TIMEFORMAT='%U %S'
    { time "$@" >"$out" 2>&1; } 2>"$folder/time"
    cat "$folder/time"
}

# Microseconds of CPU per request, from seconds and a count.
per_request() { awk -v count="$2" '{ printf "%.3f\n", ($1 + $2) * 1e6 / count }' <<<"$1"; }

# wrk runs for a time: about as long as the engine needs for its requests.
seconds=5
for round in $(seq "$rounds"); do
    cpu=$(cpu_of "$folder/unstall" "$engine" "$url" "$users" "$requests")
    count=$(awk '{ print $2 }' "$folder/unstall")
    [ "$count" = "$requests" ] || { echo "the engine completed $count of $requests:" >&2; cat "$folder/unstall" >&2; exit 1; }
    per_request "$cpu" "$count" >>"$folder/unstall.list"

    cpu=$(cpu_of "$folder/wrk" wrk -t1 -c"$users" -d"${seconds}s" "$url")
    count=$(awk '/requests in/ { print $1 }' "$folder/wrk")
    per_request "$cpu" "$count" >>"$folder/wrk.list"

    if [ -n "$oha" ]; then
        cpu=$(cpu_of "$folder/oha" "$oha" -n "$requests" -c "$users" --no-tui "$url")
        per_request "$cpu" "$requests" >>"$folder/oha.list"
    fi
    echo "round $round of $rounds done" >&2
done

median() { sort -n "$1" | awk '{ v[NR] = $1 } END { print (NR % 2) ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'; }
base=$(median "$folder/wrk.list")
printf '| generator | CPU per request, median of %s (µs) | lowest–highest | × wrk |\n|---|---|---|---|\n' "$rounds"
for name in wrk unstall oha; do
    list="$folder/$name.list"
    [ -f "$list" ] || continue
    middle=$(median "$list")
    printf '| %s | %.2f | %.2f–%.2f | %.2f |\n' "$name" "$middle" "$(sort -n "$list" | head -1)" \
        "$(sort -n "$list" | tail -1)" "$(awk -v a="$middle" -v b="$base" 'BEGIN { print a / b }')"
done
[ -n "$oha" ] || echo "oha is not installed: cargo install oha --locked"
