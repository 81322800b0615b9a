# Sourced by ci/run-*. `measure WHO OPTIONS...` runs ReFrame on the suite into $TIERBENCH_RUN_DIR and sets `status`.
# After SIGINT, SIGTERM or SIGHUP ReFrame ends its job well, is waited for, and the script ends with 128 + the signal;
# also where the signal comes after that, while the report is made.

# `new_run FOLDER NAME` makes the folder of a new run and says its name: two runs of one second have two.
new_run() {
    local id number=1 began
    began=$(date +%Y%m%d-%H%M%S)
    id=$began-$2
    mkdir -p "$1"
    until mkdir "$1/$id" 2> /dev/null; do
        [ -e "$1/$id" ] || { echo "$1/$id: cannot be made" >&2; return 2; }
        number=$((number + 1))
        id=$began-$2-$number
    done
    echo "$id"
}

measure() {
    local who=$1 signal= reframe=
    shift
    trap 'signal=2; end_reframe' INT
    trap 'signal=15; end_reframe' TERM
    trap 'signal=1; end_reframe' HUP
    mkdir -p "$TIERBENCH_RUN_DIR/reframe"
    .venv/bin/python -P -m tierbench.site.session "$TIERBENCH_RUN_DIR/reframe" -c reframe_tests -r \
        --exec-policy=serial --prefix "$TIERBENCH_RUN_DIR/reframe" \
        --report-file "$TIERBENCH_RUN_DIR/reframe.json" "$@" &
    reframe=$!
    [ -z "$signal" ] || end_reframe # a signal came before the process had a name here
    status=0
    wait "$reframe" || status=$?
    if [ -n "$signal" ]; then
        wait "$reframe" || true
        ended "$who" "$signal"
    fi
    trap 'ended '"$who"' 2' INT
    trap 'ended '"$who"' 15' TERM
    trap 'ended '"$who"' 1' HUP
    rm -rf "$TIERBENCH_RUN_DIR/reframe/stage"
}

ended() {
    trap '' INT TERM HUP
    echo "$1: ended by signal $2: ${TIERBENCH_RUN_DIR#"$PWD"/} holds what was measured, results/latest is as it was" >&2
    exit $((128 + $2))
}

end_reframe() {
    [ -z "$reframe" ] || kill -TERM "$reframe" 2> /dev/null || true
}
