# Sourced by ./run: the cost of a daemon when it is idle, and in storms.

# cpu_of PID: prints the milliseconds of processor time that it has used.
cpu_of() {
    awk -v tick="$(getconf CLK_TCK)" '{ sub(/.*\) /, ""); print int(($12 + $13) * 1000 / tick) }' "/proc/$1/stat"
}
# sleeps_of PID: prints the number of context switches of all threads. A thread may end in between.
sleeps_of() { { cat "/proc/$1"/task/*/status 2>/dev/null || true; } | awk '/ctxt_switches/ { sum += $2 } END { print sum }'; }
# memory_of PID KEY: prints megabytes.
memory_of() { awk -v key="$2:" '$1 == key { printf "%.1f", $2 / 1024 }' "/proc/$1/smaps_rollup"; }

# await_calm PID: waits until it uses less than 10 ms of processor time in a second, at most for
# 120 seconds. Sets `calm_after` to the seconds.
await_calm() {
    local before now start=$SECONDS
    now=$(cpu_of "$1")
    for ((calm_after = 0; calm_after < 120; calm_after = SECONDS - start - 1)); do
        before=$now
        sleep 1
        now=$(cpu_of "$1")
        ((now - before >= 10)) || return 0
    done
}

# print_idle SECONDS: a row for each entry of `rows` (PID and name). Nothing happens meanwhile.
print_idle() {
    local row before=() i
    printf '\n| idle, with one subscriber | resident | proportional | context switches in %s s |\n|---|---|---|---|\n' "$1"
    for row in "${rows[@]}"; do before+=("$(sleeps_of "${row%% *}")"); done
    sleep "$1"
    for i in "${!rows[@]}"; do
        row=${rows[i]}
        printf '| %s | %s MB | %s MB | %s |\n' "${row#* }" "$(memory_of "${row%% *}" Rss)" \
            "$(memory_of "${row%% *}" Pss)" $(($(sleeps_of "${row%% *}") - before[i]))
    done
}

# lost_by NAMESPACE: prints how many messages its netlink sockets have lost. A socket that has some
# left, although its daemon is calm, is not read again.
lost_by() {
    ip netns exec "$1" cat /proc/net/netlink | awk 'NR > 1 { lost += $9; left += $5 } END {
        if (lost) printf "; %d messages lost", lost
        if (left) printf "; deaf" }'
}

# storm NAMESPACE COMMAND...: runs a command that prints a batch for `ip`, applies the batch, and
# prints what it cost the namespace's daemon: its processor time, how long it went on, and what it
# lost.
storm() {
    local daemon=${daemons[$1]} before
    before=$(cpu_of "$daemon")
    "${@:2}" | ip -n "$1" -batch - >/dev/null
    await_calm "$daemon"
    printf '%s ms; calm after %s s%s' $(($(cpu_of "$daemon") - before)) $calm_after "$(lost_by "$1")"
}

many_routes() { # COUNT
    awk -v count="$1" 'BEGIN { for (i = 0; i < count; i++)
        printf "route add 20.%d.%d.%d/32 via 10.5.0.1\n", i / 65536, i / 256 % 256, i % 256 }'
}

many_pairs() { # COUNT
    awk -v count="$1" 'BEGIN { for (i = 0; i < count; i++)
        printf "link add c%d type veth peer name d%d\nlink set c%d up\nlink set d%d up\n", i, i, i, i }'
}
