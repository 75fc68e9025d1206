#!/bin/bash
# Dead connections of programs that do not use connd: connd-reap.service under systemd, and
# `connctl run --guard` with each of Yama's restrictions and with kernel TLS. The machine has a
# cable and a modem (two veths).
cd "$(dirname "$(readlink -f "$0")")" || exit
. ./tap.sh
. ./connection.sh
. ./uplinks.sh

# start UNIT PORT [WORD...]: a program in a unit, with a connection to that port.
start() {
    systemd-run --quiet --unit="$1" python3 -B "$PWD/unguarded.py" $server "${@:2}"
    check "$1.service connects to port $2" within 60 said "$1" '^open'
}
said() {
    journalctl --unit="$1" --output=cat >/run/said
    told /run/said "$2"
}
unsaid() { ! said "$1" "$2" >/dev/null; }
follows() { connctl stats | grep -E 'subscribers +[1-9]'; }
# reap [OPTION...]: the service with these options.
reap() {
    echo "CONND_REAP=$*" >/etc/connd/reap.conf
    check "connd-reap.service starts with CONND_REAP=$*" systemctl restart connd-reap.service
    check "connd-reap.service follows connd" within 60 follows
}
recover() {
    uplink up
    check "the cable is plugged in → connd reports wired" connctl wait wired --timeout 1m
}

check "boot → connd.service is active" within 120 is active systemctl is-active connd.service
check "reload with eth0 as wired, wwan0 as cellular → succeeds" configure <<<'links: [{match: eth0, medium: wired}, {match: wwan0, medium: cellular}]'
check "the default route uses the cable → connd reports wired" connctl wait wired --timeout 2m
systemd-run --quiet --unit=server-ssh ip netns exec net busybox nc -ll -p 22 -e cat

echo "# the service, as installed"
check "R6 connd-reap.service is disabled by default" is disabled systemctl is-enabled connd-reap.service
check "R6 connd-reap.service is not running by default" is inactive systemctl is-active connd-reap.service
check "R6 the installed options are those of a dry run" is 'CONND_REAP=--dry-run' grep -v '^#' /etc/connd/reap.conf
# The programs send all the time. Open vSwitch loads NAT, so the silence of idle connections would
# prove nothing (E0).
start first 7
start second 7
start session 22
check "connd-reap.service starts with the installed options" systemctl start connd-reap.service
check "connd-reap.service follows connd" within 60 follows
check "R4 its only capability is CAP_NET_ADMIN" is '0+1000' sed -n 's/^CapEff:\t//p' "/proc/$(systemctl show connd-reap.service --property=MainPID --value)/status"
uplink down
for unit in first second; do
    check "R6 the cable is pulled, dry run → the journal names $unit.service" within 60 said connd-reap "would end $unit.service, uid 0, $server:7: .* on eth0; the other path is by wwan0"
done
recover

echo "# the service, for a unit"
reap --unit first.service
uplink down
check "R5 the cable is pulled, --unit first.service → its connection ends" within 60 said first '^ended Software caused connection abort'
check "R6 --unit first.service → the journal names it" said connd-reap "ended first.service, uid 0, $server:7"
check "R5 --unit first.service → the other units' connections go on" unsaid connd-reap 'ended (second|session)'
recover

echo "# the service, for all"
reap
uplink down
check "R4 the cable is pulled, no options → the other connection ends, too" within 60 said second '^ended Software caused connection abort'
check "R5 no options → a session on port 22 goes on" unsaid session ended
recover
reap --port 22
uplink down
check "R5 --port 22 → the session ends, too" within 60 said session '^ended Software caused connection abort'
recover
check "stopping connd-reap.service → succeeds" systemctl stop connd-reap.service
check "connd-reap.service was stopped → its result is success" is success systemctl show connd-reap.service --property=Result --value

echo "# Yama"
# Two connections, so that an obstacle could be reported twice.
program='import socket
connections = [socket.create_connection(("'$server'", 7)) for _ in range(2)]
print("open", flush=True)
for connection in connections:
    try:
        connection.recv(1)
    except OSError as error:
        print("ended", error.strerror, flush=True)'
for scope in 0 1 2; do
    check "kernel.yama.ptrace_scope is set to $scope" sysctl -w kernel.yama.ptrace_scope=$scope
    setpriv --reuid=65534 --regid=65534 --clear-groups connctl run --guard -- python3 -c "$program" >/run/guarded 2>/run/guarding &
    guarding=$!
    check "ptrace_scope is $scope → a guarded program of another user connects" within 60 told /run/guarded open
    uplink down
    if [ $scope = 2 ]; then
        check "R6 ptrace_scope is 2, the cable is pulled → connctl says that it cannot access the program" within 60 told /run/guarding '^connctl: cannot end connections of python3 \([0-9]+\): Operation not permitted$'
        check "R6 ptrace_scope is 2, two connections → connctl says so once" is 1 grep -c . /run/guarding
        check "ptrace_scope is 2 → nothing ends" untold /run/guarded ended
        kill $guarding
    else
        check "R4 ptrace_scope is $scope, the cable is pulled → the program's connection ends" within 60 told /run/guarded '^ended'
        check "R6 ptrace_scope is $scope → connctl reports each end" within 60 is 2 grep -c 'the other path is by wwan0; disconnected' /run/guarding
    fi
    wait $guarding
    recover
done

echo "# kernel TLS"
check "this kernel has kernel TLS" modprobe tls
connctl run --guard -- python3 -B unguarded.py $server 7 tls >/run/guarded 2>/run/guarding &
guarding=$!
check "a guarded program sends and receives by kernel TLS" within 60 told /run/guarded '^echoed'
uplink down
check "R4 kernel TLS, the cable is pulled → the connection ends" within 60 told /run/guarded '^ended (EOF|Broken pipe)'
check "R4 the kernel does not disconnect kernel TLS → it is only shut down" told /run/guarding 'the other path is by wwan0; shut down$'
wait $guarding
finish connd.service connd-reap.service
