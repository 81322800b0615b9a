#!/usr/bin/env bash
# A launch that may take so long and no longer: then it is ended with its ranks, and one line says which and why.
# Its launcher alone is told to end (TERM), once: it knows its ranks, and a second signal would end it before them. So it
# is in a session of its own, which a signal to the whole job does not reach, and this shell passes that on and waits.
# usage: limited.sh LAUNCH SECONDS WHY COMMAND...
launch=$1 seconds=$2 why=$3
shift 3
told= child=
trap 'told=1; [ -z "$child" ] || kill -TERM "$child" 2> /dev/null' TERM INT HUP
setsid timeout --foreground --kill-after=30 "$seconds" "$@" &
child=$!
[ -z "$told" ] || kill -TERM "$child" 2> /dev/null
wait "$child"
status=$?
while [ -n "$told" ]; do # the signal ended the wait, not the launch
    told=
    wait "$child"
    status=$?
done
if [ $status -eq 124 ] || [ $status -eq 137 ]; then
    echo "tierbench: launch $launch was ended after $seconds s: $why" | tee /dev/stderr
fi
exit $status
