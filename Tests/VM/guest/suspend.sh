#!/bin/bash
# Records a sleep of the machine with the kernel's own test
# (Documentation/power/basic-pm-debugging.rst): everything is suspended for five seconds, including
# time. /host does not survive a sleep. So this runs in /run and sends the results over a serial
# line (Tests/VM/run).
# cpus: 1
[ "$PWD" = /run ] || { cp ./*.sh /run && cd /run && exec bash suspend.sh; }
unset OLDPWD  # It is /host, which every new shell would access.
. ./tap.sh
. ./connection.sh
exec >/run/.output 2>&1

mkdir /run/recorded
ip netns add beyond
ip link add eth0 type veth peer name eth0 netns beyond
for words in "link set eth0 up" "link set lo up" "address add 192.0.2.1/24 dev eth0"; do ip -n beyond $words; done
ip link set eth0 up
ip address add 192.0.2.2/24 dev eth0
ip route add default via 192.0.2.1 dev eth0
serve beyond

connd --socket /run/recorded/connd.sock --record /run/suspend.recording 2>/run/suspend.log &
recorder=$!
export CONND_SOCKET=/run/recorded/connd.sock
check "connd --record starts → it reports online" within 60 connctl wait online --timeout 1m
connctl watch --json >/run/suspend.json 2>/dev/null &
watcher=$!
check "connctl watch has received a snapshot" within 60 told /run/suspend.json '"snapshot"'
call 192.0.2.2
echo core >/sys/power/pm_test
check "echo mem >/sys/power/state → returns within 60 s" timeout 60 sh -c 'echo mem >/sys/power/state'
check "I6 the machine has slept → connctl watch prints an advise with the reason resumed" within 60 told /run/suspend.json '"reason": ?"resumed", "severity": ?"advise"'
check "I6 the machine has slept → connctl guard prints an advise with the reason resumed" within 60 told /run/guard '"reason": ?"resumed", "severity": ?"advise"'
check "I6 I0 the machine has slept for five seconds → the connection still echoes" echoes
check "the machine has slept for five seconds → connd does not destroy the connection" untold /run/guard destroy
kill $recorder
wait $recorder
kill $watcher 2>/dev/null
check "the sleep is replayed → connd prints the same events as when it was recorded" is '' bash -c "connd --replay /run/suspend.recording | diff - /run/suspend.json"
(finish connd.service)
echo $? >/run/.status
stty -F /dev/ttyS1 raw
tar -C /run -c .status .output suspend.recording suspend.json | cat >/dev/ttyS1
echo o >/proc/sysrq-trigger
sleep 60
