#!/bin/bash
# connd as a service: activation, notifications, sandbox, journal, reload, watchdog, stop.
# Expects in root/ what `make install PREFIX=/usr` installs.
cd "$(dirname "$(readlink -f "$0")")" || exit
. ./tap.sh

property() { systemctl show "$1" --property="$2" --value; }
main() { property connd.service MainPID; }
in_status() { grep "^$1:" "/proc/$(main)/status" | cut -f2; }
generation() { connctl status --json | sed -n 's/.*"generation": *\([0-9]*\).*/\1/p'; }
configure() { cat >/etc/connd/connd.yaml; }

cp -a root/. /
chown -R root:root /etc/connd
systemctl daemon-reload

echo "# installed"
check "the units have no errors" systemd-analyze verify --man=no connd.service connd.socket
check "systemd-analyze security: exposed by at most 1.2" systemd-analyze security --threshold=12 connd.service
check "enable" systemctl enable connd.service
check "enabling the service enables the socket" is enabled systemctl is-enabled connd.socket
check "the installed configuration is right" connd --check-config

echo "# activation"
check "D2 the socket unit starts" systemctl start connd.socket
check "D2 the socket alone does not start connd" is inactive systemctl is-active connd.service
check "D2 a connection starts connd, and is answered" connctl is none
check "connd runs" is active systemctl is-active connd.service
check "D3 any user may ask" setpriv --reuid=4321 --regid=4321 --clear-groups connctl is none
check "D3 the installed programs need no Swift toolchain" bash -c '! ldd /usr/bin/connd /usr/bin/connctl | grep -E "swift|Foundation|not found"'

echo "# sandbox"
check "D3 a dynamic user" is '[1-9][0-9]+ .*' bash -c "grep ^Uid: /proc/$(main)/status | xargs | cut -d' ' -f2-"
check "D3 no capabilities" is '0+ 0+ 0+ 0+ 0+' echo "$(in_status CapInh)" "$(in_status CapPrm)" "$(in_status CapEff)" "$(in_status CapBnd)" "$(in_status CapAmb)"
check "D3 system calls are filtered" is 2 in_status Seccomp
check "D3 no new privileges" is 1 in_status NoNewPrivs

echo "# notifications"
check "Type" is notify property connd.service Type
check "NotifyAccess" is exec property connd.service NotifyAccess
check "WatchdogUSec" is 1min property connd.service WatchdogUSec
check "D1 the status names the category" within 10 is '.*\bnone\b.*' property connd.service StatusText
ip link add up0 type dummy
ip link set up0 up
ip address add 192.0.2.2/24 dev up0
configure <<'Y'
links:
  - {match: "up0", medium: wired}
Y
check "reload" systemctl reload connd.service
ip route add default via 192.0.2.1
check "a default route makes the category wired" connctl wait wired --timeout 10s
check "D1 the status follows: category and link" within 10 is '.*\bwired\b.*\bup0\b.*' property connd.service StatusText
connctl watch --json >/run/watch 2>&1 &
watch=$!
check "D1 the status follows: one subscriber" within 10 is '.*\b1 subscriber\b.*' property connd.service StatusText
ip route del default
check "without the route the category is none" connctl wait none --timeout 10s
check "D1 the status follows: none" within 10 is '.*\bnone\b.*' property connd.service StatusText
check "watch told both" within 10 grep '"transition".*"none"' /run/watch
ip route add default via 192.0.2.1
check "the route is back" connctl wait wired --timeout 10s

echo "# journal"
check "a transition is in the journal by its fields" within 10 bash -c 'journalctl --unit=connd --output=json CATEGORY=wired INTERFACE=up0 | grep -q SYSLOG_IDENTIFIER.*connd'
check "a message tells it all without the fields" bash -c 'journalctl --unit=connd --output=cat CATEGORY=wired | grep -w wired | grep -w up0'
check "connd complained of nothing" is '' journalctl --quiet --unit=connd --priority=warning --output=cat _COMM=connd

echo "# clock"
check "the clock is set" date --set='+1 hour'
ip route del default
check "something happens afterwards" connctl wait none --timeout 10s
ip route add default via 192.0.2.1
check "and is undone" connctl wait wired --timeout 10s
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
check "the journal names file and line" bash -c 'journalctl --unit=connd --output=cat | grep "connd.yaml:1"'
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

echo "# watchdog"
mkdir -p /etc/systemd/system/connd.service.d
printf '[Service]\nWatchdogSec=2\n' >/etc/systemd/system/connd.service.d/watchdog.conf
systemctl daemon-reload
systemctl restart connd.service
started=$(property connd.service ExecMainStartTimestampMonotonic)
answered_since() { [ $(($(property connd.service WatchdogTimestampMonotonic) - started)) -ge "$1" ]; }
check "D1 the watchdog is answered for three times its time" within 20 answered_since 6000000
check "connd was not restarted" is 0 property connd.service NRestarts
systemctl kill --signal=STOP --kill-who=main connd.service
check "D1 a connd that hangs is noticed and started again" within 30 is 1 property connd.service NRestarts
check "it answers again" within 10 connctl is wired

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
# What the libraries print goes past the journal's fields; what --check-config printed in the reloads is meant to.
check "nothing in connd complained past its log" is '' \
    bash -c 'journalctl --quiet --unit=connd --output=cat _COMM=connd _TRANSPORT=stdout _TRANSPORT=syslog | grep -v "/etc/connd/connd.yaml"'
echo "# $(systemctl show connd.service --property=MemoryCurrent --property=TasksCurrent | xargs)"
finish connd.service connd.socket
