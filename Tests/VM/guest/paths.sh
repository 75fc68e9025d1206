#!/bin/bash
# connd and paths that a route does not show completely (K3, K6):
# Open vSwitch, PPPoE, tunnels whose remote end is in the route, VRFs, and a VPN's kill switch. The
# machine has a cable, eth0 (a veth), to the router in the namespace "net". Behind it is a server.
cd "$(dirname "$(readlink -f "$0")")" || exit
. ./tap.sh
. ./connection.sh

# chain FAMILY LINK...: whether the default path of the family uses these links.
chain() {
    local links family=$1
    shift
    links=$(printf '"%s", ?' "$@")
    says "\"$family\": ?\{[^}]*\"chain\": ?\[${links%, ?}\]" connctl status --json || { connctl explain; return 1; }
}
# bytes ADDRESS: whether the address answers a ping.
bytes() { busybox ping -c 1 -W 2 "$1"; }
# says REGEX COMMAND [ARG...]: whether COMMAND's output matches.
says() {
    local regex=$1 output
    shift
    output=$("$@" 2>&1)
    grep -qE "$regex" <<<"$output" || { echo "$output"; return 1; }
}
# plug up|down: plugs the cable in, or pulls it, at the other end.
plug() { ip -n net link set far0 "$1"; }
lost() { ip link show eth0 | grep NO-CARRIER; }
unplugged() {
    plug down
    check "the cable is pulled → eth0 has no carrier" within 60 lost
    check "K6 the cable below $1 is pulled → connd reports none" connctl wait none --timeout 2m
    plug up
    check "K6 the cable below $1 is plugged in → connd reports wired" connctl wait wired --timeout 2m
}

ip netns add net
ip -n net link set lo up
ip link add eth0 index 20 type veth peer name far0 netns net
ip link set eth0 up
ip -n net link set far0 up
ip -n net address add 10.0.0.1/24 dev far0
serve net
check "boot → connd.service is active" within 120 is active systemctl is-active connd.service
check "reload with eth0 as a wired link → succeeds" configure <<<'links: [{match: eth0, medium: wired}]'

echo "# Open vSwitch"
check "starting Open vSwitch → succeeds" systemctl start openvswitch-switch
ovs-vsctl add-br br-ex
ovs-vsctl add-br br-int
ip link add vnet0 type veth peer name guest0
ip link set vnet0 up
ip link set guest0 up
ovs-vsctl add-port br-int vnet0
ovs-vsctl add-port br-int gre0 -- set interface gre0 type=vxlan options:remote_ip=10.0.0.9
ovs-vsctl add-port br-ex eth0
ip link set br-ex up
ip address add 10.0.0.2/24 dev br-ex
ip route add default via 10.0.0.1
check "K6 the default route uses br-ex → its underlay is eth0, not the guest's port" within 60 chain ipv4 br-ex eth0
check "K6 the default route uses br-ex → connd reports the port's medium, wired" connctl is wired
call 10.0.0.2
plug down
check "the cable below br-ex is pulled → eth0 has no carrier" within 60 lost
check "K6 the cable below br-ex is pulled → connd reports none" connctl wait none --timeout 2m
check "I2 the cable below br-ex is pulled → connd destroys the connection" within 60 told /run/guard '"severity": ?"destroy"'
exec {socket}>&-
plug up
check "K6 the cable below br-ex is plugged in → connd reports wired" connctl wait wired --timeout 2m
echo "# a port of Open vSwitch with an address of its own"
ip address del 10.0.0.2/24 dev br-ex
ip address add 10.0.0.2/24 dev eth0
ip route add default via 10.0.0.1 dev eth0
check "K3 a port of Open vSwitch has the address itself → its path has no source address" within 60 says '"reason": ?"noSourceAddress"' connctl status --json
check "K3 a port of Open vSwitch has the address itself → connd reports none" connctl is none
ovs-vsctl del-port br-ex eth0
check "K3 eth0 is no longer a port of Open vSwitch → connd reports wired" connctl wait wired --timeout 2m
ovs-vsctl del-br br-ex
ovs-vsctl del-br br-int
ip link del vnet0

echo "# a VRF"
ip link add red type vrf table 10
ip link set red up
ip link set eth0 master red
ip route add default via 10.0.0.1 dev eth0 table 10
ip rule add to 198.51.100.0/24 lookup 10
# port STATUS: connd's status of the path over the VRF's port.
port() { says "\"$1\"" connctl path $server --json; }
check "K3 eth0 is a port of a VRF that is up → the path over eth0 is satisfied" within 60 port satisfied
check "a socket bound to the VRF → the server answers" ip vrf exec red busybox ping -c 1 -W 2 $server
ip link set red down
check "K3 eth0 is a port of a VRF that is down → the path over eth0 is linkDown" within 60 port linkDown
ip link set eth0 nomaster
ip rule del to 198.51.100.0/24 lookup 10
ip link del red

echo "# 6rd"
ip address add 10.0.0.2/24 dev eth0 2>/dev/null
ip route replace default via 10.0.0.1 dev eth0
ip -n net link add far6 type sit local 10.0.0.1
ip -n net link set far6 up
ip -n net address add 2001:db8:6::1/64 dev far6
ip -n net address add 3fff::9/128 dev lo
ip -n net -6 route add 2001:db8:a00:2::/64 via ::10.0.0.2 dev far6
ip link add 6rd type sit local 10.0.0.2
ip tunnel 6rd dev 6rd 6rd-prefix 2001:db8::/32
ip link set 6rd up
ip address add 2001:db8:a00:2::2/64 dev 6rd nodad
ip -6 route add default via ::10.0.0.1 dev 6rd
check "6rd tunnel → the server answers" within 30 bytes 3fff::9
check "K6 6rd tunnel → its underlay is eth0, found by the gateway's address" within 60 chain ipv6 6rd eth0
unplugged 6rd
ip link del 6rd

echo "# multipoint GRE, and IPIP with the remote end as the gateway"
ip -n net link add farg type gre local 10.0.0.1 key 7
ip -n net link set farg up
ip -n net address add 10.9.0.1/24 dev farg
ip -n net neigh add 10.9.0.2 lladdr 10.0.0.2 dev farg nud permanent
ip link add gre1 type gre local 10.0.0.2 key 7
ip link set gre1 up
ip address add 10.9.0.2/24 dev gre1
ip neigh add 10.9.0.1 lladdr 10.0.0.1 dev gre1 nud permanent
ip route replace default via 10.9.0.1 dev gre1
ip route add 10.0.0.1 dev eth0 2>/dev/null
check "multipoint GRE tunnel → the server answers" within 30 bytes $server
check "K6 multipoint GRE tunnel → its underlay is eth0, found by the neighbour entry" within 60 chain ipv4 gre1 eth0
unplugged gre1
ip link del gre1
ip -n net link add fari type ipip local 10.0.0.1
ip -n net link set fari up
ip -n net address add 10.8.0.1/32 dev fari
ip -n net route add 10.8.0.2 via 10.0.0.2 dev fari onlink
ip link add ipip1 type ipip local 10.0.0.2
ip link set ipip1 up
ip address add 10.8.0.2/32 dev ipip1
ip route replace default via 10.0.0.1 dev ipip1 onlink src 10.8.0.2
check "IPIP tunnel → the server answers" within 30 bytes $server
check "K6 IPIP tunnel → its underlay is eth0, found by the gateway's address" within 60 chain ipv4 ipip1 eth0
unplugged ipip1
ip link del ipip1

echo "# PPPoE"
ip address flush dev eth0
cat >/etc/ppp/pppoe-server-options <<<$'noauth\nlcp-echo-interval 60\nlcp-echo-failure 9'
# The modem is a bridge. Its line to the server stays up while its cable is unplugged.
ip -n net link add modem type bridge
ip -n net link add line0 type dummy
for link in line0 far0; do ip -n net link set $link master modem; done
for link in line0 modem; do ip -n net link set $link up; done
ip netns exec net pppoe-server -I modem -L 10.7.0.1 -R 10.7.0.2 -N 1 -O /etc/ppp/pppoe-server-options
plug up
pppd plugin rp-pppoe.so eth0 noauth nodetach defaultroute lcp-echo-interval 60 lcp-echo-failure 9 >/run/pppd 2>&1 &
check "pppd has connected → ppp0 has an address" within 60 says 'inet 10\.7\.0\.2' ip -4 address show dev ppp0
check "the kernel lists its PPPoE sessions in /proc/net/pppoe" cat /proc/net/pppoe
check "PPPoE → the server answers" within 30 bytes $server
check "K6 the default route uses ppp0 → its underlay is eth0" within 60 chain ipv4 ppp0 eth0
check "K6 the default route uses ppp0 → connd reports wired" connctl is wired
call 10.7.0.2
plug down
check "K6 the cable below ppp0 is pulled → connd reports none" connctl wait none --timeout 30
check "I2 the cable below ppp0 is pulled → connd destroys the connection" within 30 told /run/guard '"severity": ?"destroy"'
exec {socket}>&-
plug up
check "K6 the cable below ppp0 is plugged in → connd reports wired" connctl wait wired --timeout 2m
kill %+ 2>/dev/null
pkill -x pppd
ip -n net link set far0 nomaster

echo "# a kill switch"
ip address add 10.0.0.2/24 dev eth0
ip route add default via 10.0.0.1 dev eth0 metric 100
check "the default route uses eth0 → connd reports wired" connctl wait wired --timeout 2m
call 10.0.0.2
ip link add pvpnks0 type dummy
ip link set pvpnks0 up
ip address add 10.9.9.1/24 dev pvpnks0
ip route add default dev pvpnks0 metric 50
check "K3 a default route into a dummy link is preferred → connd reports none" connctl wait none --timeout 2m
check "K3 a default route into a dummy link → connctl explain calls it a kill switch" says 'kill switch: pvpnks0' connctl explain
check "K3 a default route into a dummy link → the reason is blackhole" says '"reason": ?"blackhole"' connctl status --json
check "I10 a default route into a dummy link → connd destroys the connection" within 60 told /run/guard '"severity": ?"destroy"'
check "a default route into a dummy link → the connection carries nothing" dead
exec {socket}>&-
ip link del pvpnks0
check "K3 the dummy link is deleted → connd reports wired" connctl wait wired --timeout 2m

finish connd.service
