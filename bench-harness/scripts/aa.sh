#!/usr/bin/env bash
# How often does the quick design cry wolf? Measures the same version against itself, session
# after session, and counts the verdicts by exit code. Any regression is a false alarm.
#
#   bench-harness/scripts/aa.sh [SESSIONS] [OUT.md]
#
# UNSTALL names the program (default: target/release/unstall, with unstall-reference beside it).
# The steps in STEPS (default "2a 3") take turns; each session starts private servers of its own.
set -euo pipefail

cd "$(dirname "$0")/../.."
sessions=${1:-20}
out=${2:-results/recorded/aa.md}
unstall=${UNSTALL:-${CARGO_TARGET_DIR:-target}/release/unstall}
read -r -a steps <<<"${STEPS:-2a 3}"

if [[ ! -x $unstall ]]; then
  echo "aa.sh: $unstall is not there; build it with" >&2
  echo "  cargo build --release -p unstall-bench-harness -p unstall-reference-service" >&2
  exit 2
fi

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
declare -A count=([pass]=0 [regression]=0 [invalid]=0 [inconclusive]=0)
rows=""

for ((session = 1; session <= sessions; session++)); do
  step=${steps[$(((session - 1) % ${#steps[@]}))]}
  begun=$SECONDS
  code=0
  "$unstall" demo --quick --aa --steps "$step" --seed "$session" --out "$scratch/$session" \
    >"$scratch/out" 2>"$scratch/err" || code=$?
  case $code in
    0) verdict=pass ;;
    1) verdict=regression ;;
    3) verdict=invalid ;;
    4) verdict=inconclusive ;;
    *)
      echo "aa.sh: session $session ended with $code:" >&2
      tail -5 "$scratch/err" >&2
      exit "$code"
      ;;
  esac
  count[$verdict]=$((count[$verdict] + 1))
  took=$((SECONDS - begun))
  rows+="| $session | $step | $session | $verdict | $took |"$'\n'
  echo "session $session/$sessions, step $step: $verdict, $took s" >&2
  if [[ $verdict == regression ]]; then
    # The evidence of a false alarm is worth more than a count.
    cat "$scratch/out" >&2
  fi
done

mkdir -p "$(dirname "$out")"
{
  echo "# The same version twice: what the quick design says"
  echo
  echo "$sessions sessions of \`unstall demo --quick --aa\`, each the version before a step against"
  echo "itself. A regression is a false alarm."
  echo
  echo "| pass | regression | inconclusive | invalid |"
  echo "|---|---|---|---|"
  echo "| ${count[pass]} | ${count[regression]} | ${count[inconclusive]} | ${count[invalid]} |"
  echo
  echo "Measured $(date -u +%Y-%m-%d) on $(uname -sm), $(nproc) cores, kernel $(uname -r)," \
    "$("$unstall" --version); load average at the end $(cut -d' ' -f1 /proc/loadavg)."
  echo
  echo "| session | step | seed | verdict | seconds |"
  echo "|---|---|---|---|---|"
  printf '%s' "$rows"
} >"$out"
echo "written to $out" >&2
if ((count[regression] > sessions / 20)); then
  echo "aa.sh: more false alarms than 1 in 20" >&2
  exit 1
fi
