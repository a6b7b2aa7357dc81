#!/usr/bin/env bash
# Measures unless there are records, judges, and writes what a pipeline keeps. All input comes in
# environment variables, so that nothing of a pull request ever becomes a part of a script.
set -euo pipefail

fail() {
    printf '::error title=Unstall::%s\n' "$*"
    exit 2
}

# The lines of a text that hold something.
lines_of() {
    sed -e 's/\r$//' -e '/^[[:space:]]*$/d' <<<"$1"
}

# Names and answers of others stand in what is printed, and the runner takes commands from any line of
# a log: between these two it takes none.
token=
take_no_commands() {
    token=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
    printf '::stop-commands::%s\n' "$token"
}
take_commands() {
    printf '::%s::\n' "$token"
}

case $GATE_FOLDER in
*$'\n'*) fail "The folder has a line break in its name." ;;
esac
mkdir -p -- "$GATE_FOLDER"
judging=()
measured=0
[ -z "$GATE_POLICY" ] || judging+=(--policy "$GATE_POLICY")
[ -z "$GATE_CERTIFICATE" ] || judging+=(--certificate "$GATE_CERTIFICATE")

if [ -n "$GATE_RECORDS" ]; then
    mapfile -t records < <(lines_of "$GATE_RECORDS")
else
    if [ -z "$GATE_SCENARIO" ] || [ -z "$GATE_BEFORE" ] || [ -z "$GATE_AFTER" ]; then
        fail "Give records, or scenario, before and after."
    fi
    mapfile -t scenarios < <(lines_of "$GATE_SCENARIO")
    mapfile -t arguments < <(lines_of "$GATE_ARGUMENTS")
    # One record is a file, several are files in a folder, which is a new one: whatever else lies
    # around wasn't measured now.
    out=$GATE_FOLDER/record.json
    rm -f -- "$out"
    [ "${#scenarios[@]}" -eq 1 ] || out=$(mktemp -d -- "$GATE_FOLDER/records.XXXXXX")
    take_no_commands
    # One stream, so that nothing of the other comes after the end of the silence.
    "$GATE_UNSTALL" ab --before "$GATE_BEFORE" --after "$GATE_AFTER" --pairs "$GATE_PAIRS" \
        --out "$out" --force "${judging[@]}" "${arguments[@]}" -- "${scenarios[@]}" 2>&1 || measured=$?
    take_commands
    case $measured in
    0 | 1 | 3 | 4) ;; # Measured; the gate judges by the policy.
    *) fail "Nothing was measured: the log above says why." ;;
    esac
    records=("$out")
    [ "${#scenarios[@]}" -eq 1 ] || records=("$out"/*.json)
fi

code=0
marker=()
[ -z "$GATE_MARKER" ] || marker=(--marker "$GATE_MARKER")
notes=$(mktemp)
trap 'rm -f -- "$notes"' EXIT
"$GATE_UNSTALL" gate "${judging[@]}" --junit "$GATE_FOLDER/junit.xml" \
    --markdown "$GATE_FOLDER/summary.md" "${marker[@]}" --github -- "${records[@]}" 2>"$notes" || code=$?
take_no_commands
cat -- "$notes"
take_commands
case $code in
0 | 1 | 3 | 4) ;;
*) fail "Nothing was judged: the log above says why." ;;
esac
# No record tells that a session broke off, or that a scenario was never measured, and a part must
# not pass for the whole.
[ "$code" -ne 0 ] || code=$measured
printf 'exit-code=%s\nfolder=%s\n' "$code" "$GATE_FOLDER" >>"$GITHUB_OUTPUT"

# Its exit code repeats the verdict; any other says that there is no page.
page=0
take_no_commands
{ "$GATE_UNSTALL" report -o "$GATE_FOLDER/report.html" "${judging[@]}" -- "${records[@]}" >/dev/null; } 2>&1 || page=$?
take_commands
case $page in
0 | 1 | 3 | 4) ;;
*) fail "The page was not written: the log above says why." ;;
esac
