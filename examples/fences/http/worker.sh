#!/bin/sh
# Keeps what COMMAND makes of a job in an HTTP service, guarded by the job's fence:
#
#     interlock worker run --topic TOPIC -- examples/fences/http/worker.sh COMMAND...
#
# Promised: once a later worker has taken the item, this one changes it no more, however late it wakes up.
# Not promised: that COMMAND runs once, or alone.
#
# SERVICE_URL says where the service is.
set -eu
# The same for every attempt at this step of this run, and for nothing else.
item="$SERVICE_URL/$INTERLOCK_RUN_ID.$INTERLOCK_STEP_ID"

# The version that a request answers, as an ETag. Anything but 200 ends the work, with the reason on stderr.
guarded() {
    if ! answer=$(curl --silent --show-error --fail-with-body --globoff --max-time 30 --retry 5 --retry-connrefused \
        --header "Fence-Token: $INTERLOCK_FENCE" --write-out '\n%header{etag}' "$@"); then
        echo "refused: fence $INTERLOCK_FENCE: $answer" >&2
        exit 1
    fi
    echo "$answer" | tail -n 1
}

version=$(guarded --request POST "$item/take")
version=$(guarded --request PUT --header "If-Match: $version" --data-raw "begun" "$item")
body=$("$@")
printf '%s' "$body" | guarded --request PUT --header "If-Match: $version" --data-binary @- "$item" > /dev/null
printf '%s\n' "$body"
