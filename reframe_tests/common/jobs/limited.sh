#!/usr/bin/env bash
# A launch that may take so long and no longer: then it is ended with its ranks, and one line says which and why.
# Its launcher alone is told to end (TERM), once: it knows its ranks, and a second signal would end it before them.
# usage: limited.sh LAUNCH SECONDS WHY COMMAND...
launch=$1 seconds=$2 why=$3
shift 3
timeout --foreground --kill-after=30 "$seconds" "$@"
status=$?
if [ $status -eq 124 ] || [ $status -eq 137 ]; then
    echo "tierbench: launch $launch was ended after $seconds s: $why" | tee /dev/stderr
fi
exit $status
