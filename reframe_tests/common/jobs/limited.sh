#!/usr/bin/env bash
# A launch that may take so long and no longer: then it is ended with its ranks, and one line says which and why.
# Its launcher alone is told to end (TERM), once: it knows its ranks, and a second signal would end it before them. So it
# is in a session of its own, which a signal to the whole job does not reach, and this shell passes that on and waits.
# What is left of that session after the launcher, a rank of one that was killed or stopped, is ended here, and what began a
# session of its own, by a variable that all of the launch have. tierd, and tierctl outside of that session, go on.
# usage: limited.sh LAUNCH SECONDS WHY COMMAND...
launch=$1 seconds=$2 why=$3
shift 3

mark="$launch.$$.$(date +%s.%N)"

left() { # the living processes of the launch
    local file line words
    for file in /proc/[0-9]*/stat; do
        { read -r line < "$file"; } 2> /dev/null || continue
        read -ra words <<< "${line##*) }" # state, parent, group, session
        [ "${words[3]}" != "$child" ] || [ "${words[0]}" = Z ] || echo "${line%% *}"
    done
    for file in $(grep -lszxF "TIERBENCH_LAUNCH=$mark" /proc/[0-9]*/environ); do
        { read -r line < "${file%environ}comm"; } 2> /dev/null || continue
        [ "$line" = tierd ] || [ "$line" = tierctl ] || echo "${file//[!0-9]/}"
    done
}

end_the_rest() {
    local _ rest
    rest=$(left)
    [ -n "$rest" ] || return
    kill -TERM $rest 2> /dev/null
    kill -CONT $rest 2> /dev/null # one that is stopped hears nothing else
    for _ in {1..50}; do
        [ -n "$(left)" ] || return
        sleep 0.1
    done
    rest=$(left)
    [ -z "$rest" ] || kill -KILL $rest 2> /dev/null
}

told= child=
trap 'told=1; [ -z "$child" ] || kill -TERM "$child" 2> /dev/null' TERM INT HUP
SECONDS=0
TIERBENCH_LAUNCH=$mark setsid timeout --foreground --kill-after=30 "$seconds" "$@" &
child=$!
[ -z "$told" ] || kill -TERM "$child" 2> /dev/null
wait "$child"
status=$?
while [ -n "$told" ]; do # the signal ended the wait, not the launch
    told=
    wait "$child"
    status=$?
done
# A launch may end by these itself: 137 is what the kernel does where memory is short.
if [ "$SECONDS" -ge "$seconds" ] && { [ $status -eq 124 ] || [ $status -eq 137 ]; }; then
    end_the_rest
    printf '\n%s\n' "tierbench: launch $launch was ended after $seconds s: $why" | tee /dev/stderr # a line of its own
fi
exit $status
