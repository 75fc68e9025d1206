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
# drop_in NAME: writes standard input to a drop-in file of connd.service.
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
check "boot → online-user.service, which needs network-online.target, is active within 120 s" within 120 is active systemctl is-active online-user.service
check "D1 network-online.target is reached → connd is active" is active cat /run/connd-was
check "D1 network-online.target is reached → connctl status answers" grep '"category"' /run/status-was
check "D1 connd.service is ordered before network-online.target" bash -c "systemctl show connd.service --property=Before | grep -w network-online.target"
check "boot → systemd has not restarted connd" is 0 property connd.service NRestarts
# The kernel charges the program's file in memory to its first process.
show_room boot
check "boot → connd's peak memory is below half of MemoryMax" half memory.peak MemoryMax
systemctl disable --quiet --now connd.service connd.socket

echo "# installation"
check "systemd-analyze verify finds no errors in connd's units" systemd-analyze verify --man=no connd.service connd.socket
check "systemd-analyze security rates connd's exposure at 1.2 or less" systemd-analyze security --threshold=12 connd.service
check "systemctl enable connd.service → succeeds" systemctl enable connd.service
check "enabling connd.service → connd.socket is enabled" is enabled systemctl is-enabled connd.socket
check "the installed configuration → connd --check-config accepts it" connd --check-config

echo "# activation"
check "D2 starting connd.socket → succeeds" systemctl start connd.socket
check "D2 only the socket unit was started → connd is inactive" is inactive systemctl is-active connd.service
check "D2 a client connects to the socket → connd starts and answers" connctl wait none --timeout 1m
check "a client has connected → connd.service is active" is active systemctl is-active connd.service
check "D3 a client with an unknown uid → connd answers its query" setpriv --reuid=4321 --regid=4321 --clear-groups connctl is none
check "D3 the installed programs link no Swift runtime library" bash -c '! ldd /usr/bin/connd /usr/bin/connctl | grep -E "swift|Foundation|not found"'

echo "# sandbox"
check "D3 connd runs as a user other than root" is '[1-9][0-9]+ .*' bash -c "grep ^Uid: /proc/$(main)/status | xargs | cut -d' ' -f2-"
check "D3 connd has no capabilities" is '0+ 0+ 0+ 0+ 0+' echo "$(in_status CapInh)" "$(in_status CapPrm)" "$(in_status CapEff)" "$(in_status CapBnd)" "$(in_status CapAmb)"
check "D3 connd has a system call filter" is 2 in_status Seccomp
check "D3 connd has NoNewPrivs set" is 1 in_status NoNewPrivs
for directory in /etc/connd /usr/bin /var/lib; do
    check "D3 root writes to $directory in connd's mount namespace → read-only file system" \
        bash -c "nsenter --target=$(main) --mount touch $directory/file 2>&1 | grep 'Read-only file system'"
done
# The same sandbox with another program in it.
drop_in sandbox <<'D'
[Service]
ExecStartPre=bash -c 'exec 2>&1; : <>/dev/udp/127.0.0.1/9; cat /proc/1/status; ls /home /root; true'
D
systemctl restart connd.service
check "D3 a process in the sandbox opens an IPv4 socket → address family not supported" within 60 bash -c "journalctl --unit=connd --output=cat | grep 'Address family not supported'"
check "D3 a process in the sandbox reads /proc/1 → not visible" within 60 bash -c "journalctl --unit=connd --output=cat | grep '/proc/1/status: No such file'"
check "D3 a process in the sandbox lists /root → permission denied" within 60 bash -c "journalctl --unit=connd --output=cat | grep \"'/root': Permission denied\""
rm /etc/systemd/system/connd.service.d/sandbox.conf
systemctl daemon-reload

echo "# notifications"
check "connd.service has Type=notify" is notify property connd.service Type
check "connd.service has NotifyAccess=exec" is exec property connd.service NotifyAccess
check "connd.service has a watchdog timeout of 1 min" is 1min property connd.service WatchdogUSec
check "D1 without a network → the service's status text says none" within 60 is '.*\bnone\b.*' property connd.service StatusText
ip link add up0 type dummy
ip link set up0 up
ip address add 192.0.2.2/24 dev up0
configure <<'Y'
links:
  - {match: "up0", medium: wired}
Y
check "reload with up0 as a wired link → succeeds" systemctl reload connd.service
ip route add default via 192.0.2.1
check "a default route is added → connd reports wired" connctl wait wired --timeout 1m
check "D1 the category becomes wired → the status text names wired and up0" within 60 is '.*\bwired\b.*\bup0\b.*' property connd.service StatusText
connctl watch --json >/run/watch 2>&1 &
watch=$!
check "D1 a client subscribes → the status text says 1 subscriber" within 60 is '.*\b1 subscriber\b.*' property connd.service StatusText
ip route del default
check "the default route is removed → connd reports none" connctl wait none --timeout 1m
check "D1 the category becomes none → the status text says none" within 60 is '.*\bnone\b.*' property connd.service StatusText
check "the default route is removed → connctl watch prints the transition to none" within 60 grep '"transition".*"none"' /run/watch
ip route add default via 192.0.2.1
check "the default route is added again → connd reports wired" connctl wait wired --timeout 1m

echo "# journal"
check "a transition → the journal has an entry with CATEGORY and INTERFACE" within 60 bash -c 'journalctl --unit=connd --output=json CATEGORY=wired INTERFACE=up0 | grep -q SYSLOG_IDENTIFIER.*connd'
check "a transition → the journal message itself names the category and the link" bash -c 'journalctl --unit=connd --output=cat CATEGORY=wired | grep -w wired | grep -w up0'
check "connd has logged no warnings" is '' journalctl --quiet --unit=connd --priority=warning --output=cat _COMM=connd

echo "# ExecCondition= of other units"
cat >/run/systemd/system/backup.service <<'U'
[Service]
Type=oneshot
ExecCondition=connctl is online
ExecStart=touch /run/backup
U
systemctl daemon-reload
check "ExecCondition=connctl is online while online → backup.service starts" systemctl start backup.service
check "backup.service started → it has run its command" rm /run/backup
ip route del default
check "the default route is removed → connd reports none" connctl wait none --timeout 1m
systemctl start backup.service
check "ExecCondition=connctl is online while offline → systemd skips backup.service" within 60 bash -c "journalctl --unit=backup --output=cat | grep \"Skipped due to 'exec-condition'\""
check "backup.service was skipped → it is not failed" exits 1 systemctl is-failed backup.service
check "backup.service was skipped → it has not run its command" test ! -e /run/backup
ip route add default via 192.0.2.1
check "the default route is back → connd reports online" connctl wait online --timeout 1m
check "ExecCondition=connctl is online, online again → backup.service starts" systemctl start backup.service
check "backup.service started again → it has run its command" rm /run/backup

echo "# statistics"
check "connctl stats --json counts the published transitions" is '.*"published": *\{.*"transition": *[1-9].*' connctl stats --json
check "sending SIGUSR1 to connd → succeeds" systemctl kill --signal=USR1 --kill-who=main connd.service
check "SIGUSR1 → connd logs its statistics" within 60 bash -c 'journalctl --unit=connd --output=cat _COMM=connd | grep "statistics since" | grep published_transition'

echo "# memory and tasks"
subscribed() { connctl stats --json | grep -E "\"subscribers\": ?$1\b"; }
check "one client watches → connctl stats counts one subscriber" within 60 subscribed 1
show_room "one subscriber"
check "one subscriber → peak memory is below half of MemoryMax" half memory.peak MemoryMax
check "one subscriber → connd has fewer than half of TasksMax tasks" half pids.current TasksMax
for ((i = 0; i < 29; i++)); do
    connctl watch >/dev/null 2>&1 &
    subscribers+=($!)
done
check "29 more clients watch → connctl stats counts 30 subscribers" within 120 subscribed 30
show_room "thirty subscribers"
check "30 subscribers → peak memory is below half of MemoryMax" half memory.peak MemoryMax
check "30 subscribers → connd has fewer than half of TasksMax tasks" half pids.current TasksMax
kill "${subscribers[@]}"
check "29 clients exit → connctl stats counts one subscriber" within 60 subscribed 1

echo "# clock"
check "setting the clock forward by an hour → succeeds" date --set='+1 hour'
ip route del default
check "the clock was set, the default route is removed → connd reports none" connctl wait none --timeout 1m
ip route add default via 192.0.2.1
check "the clock was set, the default route is added → connd reports wired" connctl wait wired --timeout 1m
check "I6 the clock was set → connd reports no resume from sleep" bash -c '! grep "\"resumed\"" /run/watch'

echo "# reload"
before=$(main)
configure <<'Y'
links:
  - {match: "up0", medium: wifi}
Y
check "reload with up0 as Wi-Fi → succeeds" systemctl reload connd.service
check "the reload has returned → the new configuration applies" connctl is wifi
check "reload → connd keeps its PID" is "$before" main
echo "links: 7" >/etc/connd/connd.yaml
check "reload with an invalid configuration → fails" exits 1 systemctl reload connd.service
check "reload with an invalid configuration → the journal names file and line" within 60 bash -c 'journalctl --unit=connd --output=cat | grep "connd.yaml:1"'
check "reload has failed → the previous configuration still applies" connctl is wifi
check "reload has failed → connd is still active" is active systemctl is-active connd.service
check "reload has failed → connd keeps its PID" is "$before" main
configure <<'Y'
links:
  - {match: "up0", medium: wired}
Y

echo "# restart"
before=$(generation)
check "systemctl restart connd.service → succeeds" systemctl restart connd.service
check "connd has restarted → it answers on the same socket" connctl is wired
check "connd has restarted → the generation has not gone back" test "$(generation)" -ge "${before:?}"
check "connd has restarted → connctl history still has the transitions" is '.*transition.*|.*"to".*' bash -c 'connctl history --json | head -n 1'
check "connd has restarted → connctl watch is still running" kill -0 $watch

echo "# overrides"
check "the group connd exists" getent group connd
check "restarting connd for the override checks → succeeds" systemctl restart connd.service
check "connd has restarted → it reports wired" within 60 connctl is wired
useradd --uid 4323 --groups connd member
check "a user outside the group connd constrains up0 → denied (exit 77)" exits 77 setpriv --reuid=4321 --regid=4321 --clear-groups connctl constrain up0 on
check "the override was denied → up0 is not constrained" connctl is not-constrained
check "a member of the group connd constrains up0 → accepted" setpriv --reuid=member --regid=member --init-groups connctl constrain up0 on
check "a member's override was accepted → up0 is constrained" connctl is constrained
check "restarting connd while up0 is constrained → succeeds" systemctl restart connd.service
check "connd has restarted → up0 is still constrained" within 60 connctl is constrained
# Resets systemd's limit of starts.
systemctl reset-failed connd.service
check "root constrains up0 until the next boot → accepted" connctl constrain up0 on --until boot
check "restarting connd within the same boot → succeeds" systemctl restart connd.service
check "connd has restarted within the same boot → the override until boot still applies" within 60 connctl is constrained
# A reboot, as connd sees it.
cat /proc/sys/kernel/random/uuid >/run/boot_id
mkdir -p /run/systemd/system/connd.service.d
printf '[Service]\nBindReadOnlyPaths=/run/boot_id:/proc/sys/kernel/random/boot_id\n' >/run/systemd/system/connd.service.d/boot.conf
systemctl daemon-reload
check "restarting connd with the ID of another boot → succeeds" systemctl restart connd.service
check "connd has restarted with the ID of another boot → the override until boot has ended" within 60 connctl is not-constrained
rm /run/systemd/system/connd.service.d/boot.conf
systemctl daemon-reload
check "root constrains up0 without a time limit → accepted" connctl constrain up0 on
check "connd's state directory has mode 700" is '700' stat --format=%a /var/lib/private/connd
check "root removes the override of up0 → accepted" connctl forget up0

echo "# DNS servers"
echo 'nameserver 192.0.2.53' >/etc/resolv.conf
check "D7 /etc/resolv.conf is written → connd reports the DNS server from its sandbox" within 60 is 'default  192\.0\.2\.53' connctl dns
printf 'nameserver 192.0.2.54\nsearch example.org\n' >/etc/resolv.conf.new
mv /etc/resolv.conf.new /etc/resolv.conf
check "D7 /etc/resolv.conf is replaced by a rename → connd reports the new DNS server" within 60 is 'default  192\.0\.2\.54, search example\.org' connctl dns

echo "# crash"
# Resets systemd's limit of starts.
systemctl reset-failed connd.service
# changes: the generations of transitions and invalidations. The history contains no paths.
changes() { grep -E '"event": ?"(transition|invalidation)"' | sed 's/.*"generation": *\([0-9]*\).*/\1/'; }
before=$(generation)
crashes=$(property connd.service NRestarts)
oldest=$(connctl history --json | head -n 1)
connctl watch --json >/run/watch-crash 2>/run/watch-crash.log &
crash_watch=$!
check "connctl watch subscribes before the crash → it prints a snapshot" within 60 grep snapshot /run/watch-crash
# connd misses the change between these two signals.
systemctl kill --signal=STOP --kill-who=main connd.service
ip route del default
systemctl kill --signal=KILL --kill-who=main connd.service
check "I7 connd is killed → systemd restarts it" within 60 is $((crashes + 1)) property connd.service NRestarts
check "the route was removed while connd was stopped → the restarted connd reports none" connctl wait none --timeout 1m
check "the route was removed while connd was stopped → the event is marked learntLate" within 60 bash -c 'connctl history --json | tail -n 3 | grep "\"learntLate\": *true"'
check "D5 connd was killed → the subscriber receives a gap with the present status" within 60 grep '"event": *"gap".*"category": *"none"' /run/watch-crash
gap=$(grep '"event": *"gap"' /run/watch-crash | head -n 1 | sed 's/.*"generation": *\([0-9]*\).*/\1/')
ip route add default via 192.0.2.1
check "a route is added after the crash → connd reports wired" connctl wait wired --timeout 1m
check "connd was killed → the generation continues from its last value" test "$(generation)" -gt "${before:?}"
check "connd was killed → the history still begins with the oldest event" test "$(connctl history --json | head -n 1)" = "${oldest:?}"
check "D5 connd was killed → after the gap, the subscriber received every event of the history" within 60 bash -c "$(declare -f changes)"'
    diff <(connctl history --json | changes | awk "\$1 > '"$gap"'") <(changes </run/watch-crash)'
kill $crash_watch

echo "# five kills within half a minute"
crashes=$(property connd.service NRestarts)
for ((kill = 1; kill <= 5; kill++)); do
    # An attack that fills connd's memory also needs seconds for each kill.
    sleep 5
    systemctl kill --signal=KILL --kill-who=main connd.service
    check "D4 connd was killed $kill times → systemd restarts it" within 60 is $((crashes + kill)) property connd.service NRestarts
    check "D4 connd was killed and restarted → it reports wired" connctl wait wired --timeout 1m
done

echo "# a client connects while connd is stopped"
drop_in hold <<'D'
[Service]
TimeoutStartSec=5min
ExecStartPre=sh -c 'until [ -e /run/go ]; do sleep 0.1; done'
D
check "systemctl stop connd.service → succeeds" systemctl stop connd.service
check "connd.service is stopped → connd.socket stays active" is active systemctl is-active connd.socket
connctl watch --json >/run/watch-early 2>&1 &
early=$!
check "D2 a client connects while connd is stopped → systemd starts connd" within 30 is activating systemctl is-active connd.service
check "D2 connd has not started yet → the client keeps waiting" kill -0 $early
check "D2 connd has not started yet → the client receives nothing" is '' cat /run/watch-early
touch /run/go
check "D2 connd has started → the waiting client receives a snapshot" within 60 grep '"snapshot"' /run/watch-early
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
check "D1 WatchdogSec=5 → connd still answers the watchdog after 15 s" within 60 answered_since 15000000
check "connd answers the watchdog → systemd has not restarted it" is 0 property connd.service NRestarts
systemctl kill --signal=STOP --kill-who=main connd.service
check "D1 connd hangs → the watchdog makes systemd restart it" within 60 is 1 property connd.service NRestarts
check "connd was restarted by the watchdog → it reports wired" within 60 connctl is wired
rm /etc/systemd/system/connd.service.d/watchdog.conf
systemctl daemon-reload
systemctl restart connd.service

echo "# out of memory"
systemctl reset-failed connd.service
before=$(generation)
restarts=$(property connd.service NRestarts)
limit=$(property connd.service MemoryMax)
# connd's present memory, and room for some of the following subscribers, but not for all.
used=$(awk '$1 == "anon" || $1 == "kernel" { sum += $2 } END { print sum }' "$cgroup/memory.stat")
systemctl set-property --runtime connd.service MemoryMax=$((used + (1 << 19)))
subscribers=()
for ((i = 0; i < 80; i++)); do
    connctl watch >/dev/null 2>&1 &
    subscribers+=($!)
done
restarted() { [ "$(property connd.service NRestarts)" -gt "$restarts" ]; }
check "D8 connd exceeds MemoryMax → it is killed and restarted" within 120 restarted
# Subscribers that had not received a message yet have exited with connd.
kill "${subscribers[@]}" 2>/dev/null
wait "${subscribers[@]}" 2>/dev/null
systemctl set-property --runtime connd.service MemoryMax="$limit"
check "connd exceeded MemoryMax → the journal mentions the OOM kill" within 60 bash -c 'journalctl --unit=connd --output=cat | grep -i "oom[- ]kill"'
systemctl daemon-reload
systemctl reset-failed connd.service
systemctl start connd.service
check "connd has restarted after the OOM kill → it reports wired" within 30 connctl is wired
check "connd has restarted after the OOM kill → the generation has not gone back" test "$(generation)" -ge "${before:?}"

echo "# stop"
kill -STOP $watch
check "systemctl stop of service and socket → succeeds even with a stalled subscriber" systemctl stop connd.service connd.socket
check "connd was stopped → the service's Result is success" is success property connd.service Result
check "connd was stopped → its exit status is 0" is 0 property connd.service ExecMainStatus
check "the socket unit was stopped → the socket file is gone" test ! -e /run/connd/connd.sock
check "connd is stopped → connctl status exits with 69" exits 69 connctl status
kill -KILL $watch
wait $watch 2>/dev/null

echo "# start without the socket unit"
check "starting connd.service without the socket unit → succeeds" systemctl start connd.service
check "the service was started alone → connd answers on its socket" connctl is wired
# Messages of libraries arrive on stdout or by syslog, not by connd's own log. The output of
# --check-config during reloads is expected.
check "connd and its libraries have written nothing to stdout or syslog" is '' \
    bash -c 'journalctl --quiet --unit=connd --output=cat _COMM=connd _TRANSPORT=stdout _TRANSPORT=syslog | grep -v "/etc/connd/connd.yaml"'
echo "# $(systemctl show connd.service --property=MemoryCurrent --property=TasksCurrent | xargs)"
finish connd.service connd.socket
