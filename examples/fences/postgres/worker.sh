#!/bin/sh
# Keeps what COMMAND makes of a job in the table `reports`, guarded by the job's fence:
#
#     interlock worker run --topic TOPIC -- examples/fences/postgres/worker.sh COMMAND...
#
# Promised: once a later worker has taken the item, this one changes it no more, however late it wakes up.
# Not promised: that COMMAND runs once, or alone.
#
# DATABASE_URL says where the table is. The output travels as an argument of psql, so it has at most 128 KiB.
set -eu
folder=$(dirname "$0")
# The same for every attempt at this step of this run, and for nothing else.
item="$INTERLOCK_RUN_ID.$INTERLOCK_STEP_ID"

sql() {
    psql "$DATABASE_URL" --no-psqlrc --quiet --tuples-only --no-align --set ON_ERROR_STOP=1 \
        --set item="$item" --set fence="$INTERLOCK_FENCE" "$@"
}

# The version that a statement answers. None: it was refused.
guarded() {
    statement=$1
    shift
    answer=$(sql "$@" --file "$folder/$statement")
    if [ -z "$answer" ]; then
        row=$(echo "SELECT 'fence ' || fence || ', version ' || version FROM reports WHERE item = :'item'" | sql)
        echo "refused: $statement with fence $INTERLOCK_FENCE; the row has $row" >&2
        exit 1
    fi
    echo "$answer"
}

version=$(guarded take.sql)
version=$(guarded write.sql --set version="$version" --set body="begun")
body=$("$@")
guarded write.sql --set version="$version" --set body="$body" > /dev/null
printf '%s\n' "$body"
