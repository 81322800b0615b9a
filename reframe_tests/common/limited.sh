#!/usr/bin/env bash
# A launch that may take so long and no longer: then it is ended with its ranks, and one line says which and why.
# Its launcher is told to end (TERM), as it knows its ranks on other nodes; 30 s later all that is left here is killed.
# usage: limited.sh LAUNCH SECONDS WHY COMMAND...
launch=$1 seconds=$2 why=$3
shift 3
timeout --kill-after=30 "$seconds" "$@"
status=$?
if [ $status -eq 124 ] || [ $status -eq 137 ]; then
    echo "tierbench: launch $launch was ended after $seconds s: $why" | tee /dev/stderr
fi
exit $status
