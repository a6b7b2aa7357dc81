#!/usr/bin/env bash
# Writes the summary as a comment on the pull request, over the one that was written before: that is
# the one by the same author which begins with the same hidden line.
set -euo pipefail

summary=$GATE_FOLDER/summary.md
comments=repos/$GITHUB_REPOSITORY/issues

# A pull request from a fork has a token that may only read: no reason to fail.
give_up() {
    printf '::warning title=Unstall::The comment was not written: %s The summary of the job has the same text.\n' "$1"
    exit 0
}

case $GATE_PULL_REQUEST in
'' | *[!0-9]*) give_up "there is no pull request." ;;
esac

GATE_MARKER_LINE=$(head -n 1 -- "$summary")
export GATE_MARKER_LINE
# The filter reads the environment by itself: nothing is pasted into it.
filter='.[] | select(.user.login == env.GATE_AUTHOR and (.body | startswith(env.GATE_MARKER_LINE))) | .id'
found=$(gh api --paginate "$comments/$GATE_PULL_REQUEST/comments" --jq "$filter") ||
    give_up "the comments could not be read."
first=${found%%$'\n'*}

if [ -n "$first" ]; then
    gh api --silent --method PATCH "$comments/comments/$first" --field "body=@$summary" ||
        give_up "the token may not change it."
else
    gh api --silent --method POST "$comments/$GATE_PULL_REQUEST/comments" --field "body=@$summary" ||
        give_up "the token may not write one."
fi
