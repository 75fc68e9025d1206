# Sourced by the scenarios: checks with TAP output, and the end of a scenario.

checks=0 failures=0

# check NAME COMMAND [ARG...]: passes if COMMAND exits with 0; otherwise shows its output.
check() {
    local name=$1 output
    shift
    checks=$((checks + 1))
    if output=$("$@" 2>&1); then
        echo "ok $checks - $name"
    else
        echo "not ok $checks - $name (status $?)"
        echo "# $*"
        [ -z "$output" ] || sed 's/^/# /' <<<"$output"
        failures=$((failures + 1))
    fi
}

# exits STATUS COMMAND [ARG...]: whether COMMAND exits with STATUS.
exits() {
    local wanted=$1 got=0
    shift
    "$@" || got=$?
    [ "$got" = "$wanted" ] || { echo "exited with $got, not $wanted"; return 1; }
}

# is WANTED COMMAND [ARG...]: whether COMMAND's whole output matches the extended regular expression
# WANTED.
is() {
    local wanted=$1 got
    shift
    got=$("$@" 2>&1) || true
    [[ $got =~ ^($wanted)$ ]] || { echo "printed: $got"; echo "not:     $wanted"; return 1; }
}

# within SECONDS COMMAND [ARG...]: whether COMMAND succeeds within that time. The time is a limit,
# not a wait.
within() {
    local deadline=$((SECONDS + $1)) output
    shift
    until output=$("$@" 2>&1); do
        [ $SECONDS -lt $deadline ] || { echo "$output"; return 1; }
        sleep 0.1
    done
}

# finish UNIT...: the total; the journal of the units if a check failed.
finish() {
    if [ $failures != 0 ]; then
        for unit; do journalctl --no-pager --output=short-monotonic --unit="$unit" | sed 's/^/# /'; done
    fi
    echo "1..$checks"
    echo "$((checks - failures)) passed, $failures failed"
    exit $((failures != 0))
}
