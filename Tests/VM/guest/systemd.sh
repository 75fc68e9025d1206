#!/bin/bash
# connd as a service: boot, activation, notifications, sandbox, journal, memory, reload, restarts,
# watchdog, stop. Expects the files of `make install PREFIX=/usr`, and connd.service enabled.
cd "$(dirname "$(readlink -f "$0")")" || exit
. ./tap.sh

property() { systemctl show "$1" --property="$2" --value; }
main() { property connd.service MainPID; }
in_status() { grep "^$1:" "/proc/$(main)/status" | cut -f2; }
generation() { connctl status --json | sed -n 's/.*"generation": *\([0-9]*\).*/\1/p'; }
configure() { cat >/etc/connd/connd.yaml; }
# drop_in NAME: a configuration file of the service, from standard input.
drop_in() {
    mkdir -p /etc/systemd/system/connd.service.d
    cat >"/etc/systemd/system/connd.service.d/$1.conf"
    systemctl daemon-reload
}

cgroup=/sys/fs/cgroup/system.slice/connd.service
# half FILE PROPERTY: whether the figure in the control group's FILE is below half of the unit's
# limit.
half() { [ $(($(<"$cgroup/$1") * 2)) -lt "$(property connd.service "$2")" ]; }
show_room() {
    echo "# $1: memory $(<$cgroup/memory.current), of it anonymous $(sed -n 's/^anon //p' $cgroup/memory.stat)," \
        "at most $(<$cgroup/memory.peak) of $(property connd.service MemoryMax);" \
        "tasks $(<$cgroup/pids.current) of $(property connd.service TasksMax)"
}

echo "# boot"
check "the boot comes to its end" within 120 is active systemctl is-active online-user.service
check "D1 who waited for network-online.target found connd running" is active cat /run/connd-was
check "D1 and was answered" grep '"category"' /run/status-was
check "D1 for connd comes before that target" bash -c "systemctl show connd.service --property=Before | grep -w network-online.target"
check "connd started once" is 0 property connd.service NRestarts
# The first process of the program also pays for its file in memory.
show_room boot
check "MemoryMax has room for the start" half memory.peak MemoryMax
systemctl disable --quiet --now connd.service connd.socket

echo "# installed"
check "the units have no errors" systemd-analyze verify --man=no connd.service connd.socket
check "systemd-analyze security: exposed by at most 1.2" systemd-analyze security --threshold=12 connd.service
check "enable" systemctl enable connd.service
check "enabling the service enables the socket" is enabled systemctl is-enabled connd.socket
check "the installed configuration is right" connd --check-config

echo "# activation"
check "D2 the socket unit starts" systemctl start connd.socket
check "D2 the socket alone does not start connd" is inactive systemctl is-active connd.service
check "D2 a connection starts connd, and is answered" connctl wait none --timeout 1m
check "connd runs" is active systemctl is-active connd.service
check "D3 any user may ask" setpriv --reuid=4321 --regid=4321 --clear-groups connctl is none
check "D3 the installed programs need no Swift toolchain" bash -c '! ldd /usr/bin/connd /usr/bin/connctl | grep -E "swift|Foundation|not found"'

echo "# sandbox"
check "D3 a user of its own" is '[1-9][0-9]+ .*' bash -c "grep ^Uid: /proc/$(main)/status | xargs | cut -d' ' -f2-"
check "D3 no capabilities" is '0+ 0+ 0+ 0+ 0+' echo "$(in_status CapInh)" "$(in_status CapPrm)" "$(in_status CapEff)" "$(in_status CapBnd)" "$(in_status CapAmb)"
check "D3 system calls are filtered" is 2 in_status Seccomp
check "D3 no new privileges" is 1 in_status NoNewPrivs
for directory in /etc/connd /usr/bin /var/lib; do
    check "D3 not even root could write to $directory" \
        bash -c "nsenter --target=$(main) --mount touch $directory/file 2>&1 | grep 'Read-only file system'"
done
# The same sandbox with another program in it.
drop_in sandbox <<'D'
[Service]
ExecStartPre=bash -c 'exec 2>&1; : <>/dev/udp/127.0.0.1/9; cat /proc/1/status; ls /home /root; true'
D
systemctl restart connd.service
check "D3 sockets of the internet are refused" within 60 bash -c "journalctl --unit=connd --output=cat | grep 'Address family not supported'"
check "D3 other processes are not seen" within 60 bash -c "journalctl --unit=connd --output=cat | grep '/proc/1/status: No such file'"
check "D3 nor anybody's home" within 60 bash -c "journalctl --unit=connd --output=cat | grep \"'/root': Permission denied\""
rm /etc/systemd/system/connd.service.d/sandbox.conf
systemctl daemon-reload

echo "# notifications"
check "Type" is notify property connd.service Type
check "NotifyAccess" is exec property connd.service NotifyAccess
check "WatchdogUSec" is 1min property connd.service WatchdogUSec
check "D1 the status names the category" within 60 is '.*\bnone\b.*' property connd.service StatusText
ip link add up0 type dummy
ip link set up0 up
ip address add 192.0.2.2/24 dev up0
configure <<'Y'
links:
  - {match: "up0", medium: wired}
Y
check "reload" systemctl reload connd.service
ip route add default via 192.0.2.1
check "a default route makes the category wired" connctl wait wired --timeout 1m
check "D1 the status follows: category and link" within 60 is '.*\bwired\b.*\bup0\b.*' property connd.service StatusText
connctl watch --json >/run/watch 2>&1 &
watch=$!
check "D1 the status follows: one subscriber" within 60 is '.*\b1 subscriber\b.*' property connd.service StatusText
ip route del default
check "without the route the category is none" connctl wait none --timeout 1m
check "D1 the status follows: none" within 60 is '.*\bnone\b.*' property connd.service StatusText
check "watch told both" within 60 grep '"transition".*"none"' /run/watch
ip route add default via 192.0.2.1
check "the route is back" connctl wait wired --timeout 1m

echo "# journal"
check "a transition is in the journal by its fields" within 60 bash -c 'journalctl --unit=connd --output=json CATEGORY=wired INTERFACE=up0 | grep -q SYSLOG_IDENTIFIER.*connd'
check "a message tells it all without the fields" bash -c 'journalctl --unit=connd --output=cat CATEGORY=wired | grep -w wired | grep -w up0'
check "connd complained of nothing" is '' journalctl --quiet --unit=connd --priority=warning --output=cat _COMM=connd

echo "# conditions of other units"
cat >/run/systemd/system/backup.service <<'U'
[Service]
Type=oneshot
ExecCondition=connctl is online
ExecStart=touch /run/backup
U
systemctl daemon-reload
check "online: the unit runs" systemctl start backup.service
check "it has done its work" rm /run/backup
ip route del default
check "offline" connctl wait none --timeout 1m
systemctl start backup.service
check "offline: the unit is skipped" within 60 bash -c "journalctl --unit=backup --output=cat | grep \"Skipped due to 'exec-condition'\""
check "which is no failure" exits 1 systemctl is-failed backup.service
check "it did nothing" test ! -e /run/backup
ip route add default via 192.0.2.1
check "online again" connctl wait online --timeout 1m
check "online again: the unit runs" systemctl start backup.service
check "it has done its work again" rm /run/backup

echo "# statistics"
check "connctl stats" is '.*"published": *\{.*"transition": *[1-9].*' connctl stats --json
check "a signal asks for them" systemctl kill --signal=USR1 --kill-who=main connd.service
check "they are in the journal" within 60 bash -c 'journalctl --unit=connd --output=cat _COMM=connd | grep "statistics since" | grep published_transition'

echo "# room"
subscribed() { connctl stats --json | grep -E "\"subscribers\": ?$1\b"; }
check "with one subscriber" within 60 subscribed 1
show_room "one subscriber"
check "MemoryMax has room" half memory.peak MemoryMax
check "TasksMax has room" half pids.current TasksMax
for ((i = 0; i < 29; i++)); do
    connctl watch >/dev/null 2>&1 &
    subscribers+=($!)
done
check "with thirty" within 120 subscribed 30
show_room "thirty subscribers"
check "MemoryMax has room for them" half memory.peak MemoryMax
check "TasksMax has room for them" half pids.current TasksMax
kill "${subscribers[@]}"
check "they leave" within 60 subscribed 1

echo "# clock"
check "the clock is set" date --set='+1 hour'
ip route del default
check "something happens afterwards" connctl wait none --timeout 1m
ip route add default via 192.0.2.1
check "and is undone" connctl wait wired --timeout 1m
check "I6 a clock that is set is no sleep" bash -c '! grep "\"resumed\"" /run/watch'

echo "# reload"
before=$(main)
configure <<'Y'
links:
  - {match: "up0", medium: wifi}
Y
check "a reload succeeds" systemctl reload connd.service
check "the new configuration holds when the reload returns" connctl is wifi
check "the process is the same" is "$before" main
echo "links: 7" >/etc/connd/connd.yaml
check "a reload with a wrong configuration fails" exits 1 systemctl reload connd.service
check "the journal names file and line" within 60 bash -c 'journalctl --unit=connd --output=cat | grep "connd.yaml:1"'
check "what was right still holds" connctl is wifi
check "connd still runs" is active systemctl is-active connd.service
check "the process is still the same" is "$before" main
configure <<'Y'
links:
  - {match: "up0", medium: wired}
Y

echo "# restart"
before=$(generation)
check "a restart" systemctl restart connd.service
check "the new connd answers on the same socket" connctl is wired
check "the generation goes on where it was" test "$(generation)" -ge "${before:?}"
check "the history is kept" is '.*transition.*|.*"to".*' bash -c 'connctl history --json | head -n 1'
check "watch outlived it" kill -0 $watch

echo "# what links cost"
check "a group whose members may say" getent group connd
check "connd starts beside it" systemctl restart connd.service
check "it serves" within 60 connctl is wired
useradd --uid 4323 --groups connd member
check "somebody else may not" exits 77 setpriv --reuid=4321 --regid=4321 --clear-groups connctl constrain up0
check "and changed nothing" connctl is not-constrained
check "a member may" setpriv --reuid=member --regid=member --init-groups connctl constrain up0
check "it holds" connctl is constrained
check "connd is started anew" systemctl restart connd.service
check "it still holds" within 60 connctl is constrained
# Starts are limited.
systemctl reset-failed connd.service
# The sandbox hides the kernel's boot ID: a mark in /run replaces it.
check "it is said until the machine starts anew" connctl constrain up0 --until boot
check "connd is started anew" systemctl restart connd.service
check "it holds, for the machine was not" within 60 connctl is constrained
systemctl stop connd.service
rm /run/connd/state/connd.boot
systemctl start connd.service
check "without the mark it was another start, and it is over" within 60 connctl is not-constrained
check "it is said again" connctl constrain up0
check "the state is nobody else's to read" is '700' stat --format=%a /var/lib/private/connd
check "it is forgotten" connctl forget up0

echo "# whom names are asked of"
echo 'nameserver 192.0.2.53' >/etc/resolv.conf
check "D7 in its sandbox connd hears of a file that is written" within 60 is 'all  192\.0\.2\.53' connctl dns
printf 'nameserver 192.0.2.54\nsearch example.org\n' >/etc/resolv.conf.new
mv /etc/resolv.conf.new /etc/resolv.conf
check "D7 and of one that takes its place" within 60 is 'all  192\.0\.2\.54, search example\.org' connctl dns

echo "# crash"
# A test has many starts.
systemctl reset-failed connd.service
# The publications in order; paths are not in the history.
changes() { grep -E '"event": ?"(transition|invalidation)"' | sed 's/.*"generation": *\([0-9]*\).*/\1/'; }
before=$(generation)
crashes=$(property connd.service NRestarts)
oldest=$(connctl history --json | head -n 1)
connctl watch --json >/run/watch-crash 2>/run/watch-crash.log &
crash_watch=$!
check "a subscriber" within 60 grep snapshot /run/watch-crash
# connd does not receive what happens between these two.
systemctl kill --signal=STOP --kill-who=main connd.service
ip route del default
systemctl kill --signal=KILL --kill-who=main connd.service
check "I7 connd is killed and started again" within 60 is $((crashes + 1)) property connd.service NRestarts
check "what changed meanwhile is told" connctl wait none --timeout 1m
check "as learnt late" within 60 grep '"learntLate": *true' /run/watch-crash
ip route add default via 192.0.2.1
check "what changes then is told" connctl wait wired --timeout 1m
check "the generation went on" test "$(generation)" -gt "${before:?}"
check "the history went on" test "$(connctl history --json | head -n 1)" = "${oldest:?}"
check "D5 the subscriber missed nothing" within 60 bash -c "$(declare -f changes)"'
    diff <(connctl history --json | changes | awk "\$1 > '"$before"'") <(changes </run/watch-crash)'
check "D5 and was told of no gap" bash -c '! grep "\"gap\"" /run/watch-crash'
kill $crash_watch

echo "# five kills within half a minute"
crashes=$(property connd.service NRestarts)
for ((kill = 1; kill <= 5; kill++)); do
    # An attack that fills connd's memory takes seconds, too.
    sleep 5
    systemctl kill --signal=KILL --kill-who=main connd.service
    check "D4 killed $kill times, connd is started again" within 60 is $((crashes + kill)) property connd.service NRestarts
    check "D4 and answers" connctl wait wired --timeout 1m
done

echo "# a connection while connd is not there"
drop_in hold <<'D'
[Service]
TimeoutStartSec=5min
ExecStartPre=sh -c 'until [ -e /run/go ]; do sleep 0.1; done'
D
check "the service stops" systemctl stop connd.service
check "the socket stays" is active systemctl is-active connd.socket
connctl watch --json >/run/watch-early 2>&1 &
early=$!
check "D2 a connection starts connd" within 30 is activating systemctl is-active connd.service
check "D2 it waits" kill -0 $early
check "D2 nothing is told yet" is '' cat /run/watch-early
touch /run/go
check "D2 then it is served" within 60 grep '"snapshot"' /run/watch-early
kill $early
rm /etc/systemd/system/connd.service.d/hold.conf

echo "# watchdog"
systemctl reset-failed connd.service
drop_in watchdog <<'D'
[Service]
WatchdogSec=5
D
systemctl restart connd.service
started=$(property connd.service ExecMainStartTimestampMonotonic)
answered_since() { [ $(($(property connd.service WatchdogTimestampMonotonic) - started)) -ge "$1" ]; }
check "D1 the watchdog is answered for three times its time" within 60 answered_since 15000000
check "connd was not restarted" is 0 property connd.service NRestarts
systemctl kill --signal=STOP --kill-who=main connd.service
check "D1 a connd that hangs is noticed and started again" within 60 is 1 property connd.service NRestarts
check "it answers again" within 60 connctl is wired
rm /etc/systemd/system/connd.service.d/watchdog.conf
systemctl daemon-reload
systemctl restart connd.service

echo "# memory"
systemctl reset-failed connd.service
before=$(generation)
restarts=$(property connd.service NRestarts)
limit=$(property connd.service MemoryMax)
# connd's memory, and room for some subscribers, but not for all that come.
used=$(awk '$1 == "anon" || $1 == "kernel" { sum += $2 } END { print sum }' "$cgroup/memory.stat")
systemctl set-property --runtime connd.service MemoryMax=$((used + (1 << 19)))
subscribers=()
for ((i = 0; i < 80; i++)); do
    connctl watch >/dev/null 2>&1 &
    subscribers+=($!)
done
restarted() { [ "$(property connd.service NRestarts)" -gt "$restarts" ]; }
check "D8 a connd that gets no more memory is ended and started again" within 120 restarted
# Those without a message yet have gone with it.
kill "${subscribers[@]}" 2>/dev/null
wait "${subscribers[@]}" 2>/dev/null
systemctl set-property --runtime connd.service MemoryMax="$limit"
check "that is said" within 60 bash -c 'journalctl --unit=connd --output=cat | grep -i "oom[- ]kill"'
systemctl daemon-reload
systemctl reset-failed connd.service
systemctl start connd.service
check "it answers again" within 30 connctl is wired
check "the generation goes on where it was" test "$(generation)" -ge "${before:?}"

echo "# stop"
kill -STOP $watch
check "a stop" systemctl stop connd.service connd.socket
check "Result" is success property connd.service Result
check "the exit status is 0" is 0 property connd.service ExecMainStatus
check "the socket's file is gone" test ! -e /run/connd/connd.sock
check "connctl says that connd is not there" exits 69 connctl status
kill -KILL $watch
wait $watch 2>/dev/null

echo "# without the socket unit being started first"
check "the service brings its socket" systemctl start connd.service
check "and answers" connctl is wired
# The libraries' output bypasses the journal's fields; the output of --check-config in the reloads
# is expected.
check "nothing in connd complained past its log" is '' \
    bash -c 'journalctl --quiet --unit=connd --output=cat _COMM=connd _TRANSPORT=stdout _TRANSPORT=syslog | grep -v "/etc/connd/connd.yaml"'
echo "# $(systemctl show connd.service --property=MemoryCurrent --property=TasksCurrent | xargs)"
finish connd.service connd.socket
