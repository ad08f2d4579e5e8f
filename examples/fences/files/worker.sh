#!/bin/sh
# Keeps what COMMAND makes of a job in a file, guarded by the job's fence:
#
#     interlock worker run --topic TOPIC -- examples/fences/files/worker.sh COMMAND...
#
# Promised: once a later worker has taken the item, this one changes it no more, however late it wakes up.
# Not promised: that COMMAND runs once, or alone.
#
# STORE_FOLDER says where the files are.
set -eu
store="$(dirname "$0")/store.py"
# The same for every attempt at this step of this run, and for nothing else.
item="$STORE_FOLDER/$INTERLOCK_RUN_ID.$INTERLOCK_STEP_ID"

version=$("$store" take "$item")
version=$(printf 'begun' | "$store" write "$item" "$version")
body=$("$@")
printf '%s' "$body" | "$store" write "$item" "$version" > /dev/null
printf '%s\n' "$body"
