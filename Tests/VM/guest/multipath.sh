#!/bin/bash
# connd-multipath as a service, with the kernel's Multipath TCP, and then beside NetworkManager.
# eth0 and eth1 lead to the namespace "net". A server there speaks Multipath TCP.
cd "$(dirname "$(readlink -f "$0")")" || exit
. ./tap.sh
. ./connection.sh

# A global address, which no host outside of the VM ever sees.
server=93.184.215.14
# links: creates both links. Those of the world keep their names.
links() {
    local number
    for number in 0 1; do
        ip link add "eth$number" type veth peer name "far$number" netns net
        ip -n net address add "10.$number.0.1/24" dev "far$number"
        ip -n net link set "far$number" up
    done
}
# routed NUMBER: gives a link its address and its default route.
routed() {
    ip link set "eth$1" up
    ip address replace "10.$1.0.2/24" dev "eth$1"
    ip route replace default via "10.$1.0.1" dev "eth$1" metric $((100 + 100 * $1))
}
# endpoints: prints the kernel's list, sorted, without numbers.
endpoints() { ip mptcp endpoint show | sed 's/ id [0-9]*//; s/ *$//' | sort | tr '\n' ';'; }
# subflow ADDRESS: whether this machine has an established subflow from there.
subflow() { ss -Htn state established src "$1" dst $server | grep ':7000'; }
# pulses: starts a connection that asks every 10 ms; each answer appends its wait in ms to
# /run/waits.
pulses() {
    : >/run/waits
    python3 ./pulses.py ask $server 7000 /run/waits &
    asker=$!
}
# answers NUMBER: whether NUMBER answers have arrived.
answers() { [ "$(wc -l </run/waits)" -ge "$1" ]; }
# goes_on: whether ten more answers arrive.
goes_on() {
    local before
    before=$(wc -l </run/waits)
    within 30 answers $((before + 10)) && kill -0 $asker
}

check "boot → connd.service is active" within 120 is active systemctl is-active connd.service
echo 'links: [{match: "eth*", medium: wired}]' >/etc/connd/connd.yaml
check "reload with links eth* as wired → succeeds" systemctl reload connd.service
ip netns add net
ip -n net link set lo up
ip -n net address add $server/32 dev lo
ip netns exec net sysctl -qw net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0
sysctl -qw net.ipv4.conf.all.rp_filter=2
links
routed 0
routed 1
systemd-run --quiet --unit=answers ip netns exec net python3 "$PWD/pulses.py" answer $server 7000

echo "# the service"
check "starting connd-multipath.service → succeeds" systemctl start connd-multipath.service
check "M2 both links have a default path → each has an endpoint, and the second is a backup" \
    within 30 is '10.0.0.2 subflow dev eth0;10.1.0.2 subflow backup dev eth1;' endpoints
pulses
check "a connection of Multipath TCP → answers arrive" goes_on
check "M3 the connection has a second subflow by eth1" within 30 subflow 10.1.0.2
check "M3 the carrier of eth0 is lost → succeeds" ip -n net link set far0 down
check "M2 the carrier of eth0 is lost → its endpoint is deleted" within 30 is '10.1.0.2 subflow( backup)? dev eth1;' endpoints
check "M3 the carrier of eth0 is lost → answers arrive by eth1" goes_on
check "M3 the carrier of eth0 returns → succeeds" ip -n net link set far0 up
check "M2 the carrier of eth0 returns → its endpoint is added again" \
    within 30 is '10.0.0.2 subflow dev eth0;10.1.0.2 subflow backup dev eth1;' endpoints
check "M3 the carrier of eth0 has returned → a new subflow uses it" within 30 subflow 10.0.0.2
check "M3 the address of eth0 is deleted → succeeds" ip address del 10.0.0.2/24 dev eth0
check "M2 the address of eth0 is deleted → its endpoint is, too" within 30 is '10.1.0.2 subflow( backup)? dev eth1;' endpoints
check "M3 the address of eth0 is deleted → answers arrive by eth1" goes_on
check "M3 the address of eth0 returns → its endpoint does, too" eval 'routed 0 && within 30 is "10.0.0.2 subflow dev eth0;10.1.0.2 subflow backup dev eth1;" endpoints'
check "M3 the address of eth0 has returned → a new subflow uses it" within 30 subflow 10.0.0.2
check "M6 both carriers are lost → succeeds" eval 'ip -n net link set far0 down; ip -n net link set far1 down'
check "M6 both carriers are lost → connd reports none" connctl wait none --timeout 1m
check "M6 both carriers are lost → an endpoint is left" is '.*subflow.*' endpoints
check "M6 both carriers return → succeeds" eval 'ip -n net link set far0 up; ip -n net link set far1 up'
check "M6 both carriers have returned → answers arrive on the same connection" goes_on
kill $asker
check "stopping connd-multipath.service → succeeds" systemctl stop connd-multipath.service
check "M2 connd-multipath --remove → no endpoint is left" eval 'connd-multipath --remove && is "" endpoints'

echo "# beside NetworkManager"
ip link del eth0
ip link del eth1
links
cat >/etc/NetworkManager/NetworkManager.conf <<'N'
[main]
plugins=keyfile
no-auto-default=*
[keyfile]
unmanaged-devices=*,except:interface-name:eth*
[device-eth]
match-device=interface-name:eth*
managed=1
N
check "starting NetworkManager → succeeds" systemctl start NetworkManager.service
for number in 0 1; do
    check "NetworkManager adds a profile for eth$number" nmcli connection add type ethernet con-name "eth$number" ifname "eth$number" \
        ipv6.method disabled ipv4.method manual ipv4.addresses "10.$number.0.2/24" ipv4.gateway "10.$number.0.1" ipv4.route-metric $((100 + number))
    check "NetworkManager activates the profile of eth$number" within 60 nmcli --wait 30 connection up "eth$number"
done
check "M4 NetworkManager adds an endpoint for each link, and none is a backup" \
    within 30 is '10.0.0.2 subflow dev eth0;10.1.0.2 subflow dev eth1;' endpoints
check "starting connd-multipath.service beside NetworkManager → succeeds" systemctl start connd-multipath.service
check "M2 connd-multipath logs that NetworkManager's endpoint has no flag" \
    within 30 eval 'journalctl --unit=connd-multipath --output=cat | grep "10.1.0.2.*belongs to another program"'
check "M2 without adopt → NetworkManager's endpoints stay as they are" is '10.0.0.2 subflow dev eth0;10.1.0.2 subflow dev eth1;' endpoints
echo 'adopt: true' >/etc/connd/multipath.yaml
check "restarting connd-multipath with adopt → succeeds" systemctl restart connd-multipath.service
check "M2 adopt → NetworkManager's endpoint of the second link becomes a backup" \
    within 30 is '10.0.0.2 subflow dev eth0;10.1.0.2 subflow backup dev eth1;' endpoints
pulses
check "a connection beside NetworkManager → answers arrive" goes_on
check "M3 the connection beside NetworkManager has a second subflow" within 30 subflow 10.1.0.2
check "M3 NetworkManager takes eth0 down → succeeds" nmcli connection down eth0
check "M3 NetworkManager has taken eth0 down → answers arrive by eth1" goes_on
check "M3 NetworkManager takes eth0 up → succeeds" nmcli --wait 30 connection up eth0
check "M2 NetworkManager has taken eth0 up → the flags are as before" \
    within 30 is '10.0.0.2 subflow dev eth0;10.1.0.2 subflow backup dev eth1;' endpoints
check "M3 NetworkManager has taken eth0 up → answers arrive" goes_on
kill $asker
check "stopping connd-multipath.service → succeeds" systemctl stop connd-multipath.service
check "M2 connd-multipath has stopped, and --remove was called → NetworkManager's endpoints are still there" \
    eval 'connd-multipath --remove && is "10.0.0.2 subflow dev eth0;10.1.0.2 subflow( backup)? dev eth1;" endpoints'
finish connd.service connd-multipath.service NetworkManager.service answers.service
