#!/bin/bash
# connd and tunnels whose remote end the kernel hides from unprivileged processes (K6, I5):
# WireGuard with the kernel's own module and two peers, and an IPsec interface. The machine has a
# cable and a modem (two veths). Behind the routers of both is the world, the namespace "net", with
# the tunnels' remote ends. A connection through each tunnel carries bytes while the tunnel moves
# from one uplink to the other.
cd "$(dirname "$(readlink -f "$0")")" || exit
. ./tap.sh
. ./connection.sh
. ./uplinks.sh

check "boot → connd.service is active" within 120 is active systemctl is-active connd.service
check "reload with eth0 as wired, wwan0 as cellular → succeeds" configure <<<'links: [{match: eth0, medium: wired}, {match: wwan0, medium: cellular}]'
check "the default route uses the cable → connd reports wired" connctl wait wired --timeout 2m

echo "# WireGuard, with two peers"
umask 077
for name in here there beyond; do
    wg genkey >/run/$name.key
    wg pubkey </run/$name.key >/run/$name.pub
done
ip link add wg0 type wireguard
ip -n net link add wg1 type wireguard
ip -n net link add wg2 type wireguard
wg set wg0 private-key /run/here.key fwmark 51820 \
    peer "$(cat /run/there.pub)" endpoint 203.0.113.1:51820 allowed-ips 0.0.0.0/0 \
    peer "$(cat /run/beyond.pub)" endpoint 203.0.113.2:51821 allowed-ips 10.8.2.0/24
ip netns exec net wg set wg1 private-key /run/there.key listen-port 51820 peer "$(cat /run/here.pub)" allowed-ips 10.8.0.2/32
ip netns exec net wg set wg2 private-key /run/beyond.key listen-port 51821 peer "$(cat /run/here.pub)" allowed-ips 10.8.2.2/32
ip address add 10.8.0.2/24 dev wg0
ip address add 10.8.2.2/24 dev wg0
ip -n net address add 10.8.0.1/24 dev wg1
ip -n net address add 10.8.2.1/24 dev wg2
ip link set wg0 up
ip -n net link set wg1 up
ip -n net link set wg2 up
# The same routes and rules as wg-quick's.
ip route add default dev wg0 table 51820
ip rule add not fwmark 51820 table 51820
ip rule add table main suppress_prefixlength 0
check "K6 WireGuard sends with a mark → the underlay of wg0 is eth0, the mark's route" within 60 chain wg0 eth0
check "K6 the underlay of wg0 → connctl explain calls it a guess" told <(connctl explain) 'guess +eth0, the default route with fwmark 0xca6c'
check "K6 wg0 is above the cable → connd reports wired" connctl is wired
call 10.8.0.2
exec {other}<>/dev/tcp/10.8.2.1/7
second() {
    local line
    echo hello >&$other && read -r -t 120 -u $other line && [ "$line" = hello ]
}
check "the second WireGuard peer echoes" second
uplink down
check "K6 the cable is pulled → the underlay of wg0 is wwan0" within 60 chain wg0 wwan0
check "K6 wg0 is above the modem → connd reports metered" told <(connctl status --json) '"expensive": ?true'
check "I5 the cable is pulled → the connection through wg0 still echoes" echoes
check "I5 the cable is pulled → the connection to the second peer still echoes" second
check "I5 I0 wg0 has moved to the modem → connd neither drains nor destroys the connection" untold /run/guard '"severity": ?"(drain|destroy)"'
uplink up
check "K6 the cable is plugged in → the underlay of wg0 is eth0" within 60 chain wg0 eth0
check "I5 the cable is plugged in → the connection through wg0 still echoes" echoes
check "I5 I0 wg0 has moved back to the cable → connd neither drains nor destroys the connection" untold /run/guard '"severity": ?"(drain|destroy)"'
ip link set wg0 down
check "I2 wg0 is set down → connd destroys the connection" within 60 told /run/guard '"severity": ?"destroy"'
check "connd has destroyed the connection → connctl guard exits" within 60 over
exec {socket}>&- {other}>&-
ip rule del not fwmark 51820 table 51820
ip rule del table main suppress_prefixlength 0
ip link del wg0

echo "# an IPsec interface"
# security NAMESPACE OWN PEER OUT IN: adds IPsec states and policies for both directions between two
# addresses. OUT and IN are the SPIs.
security() {
    local way
    for way in "out $2 $3 $4" "in $3 $2 $5"; do
        # shellcheck disable=SC2086  # words
        set -- $1 $2 $3 $4 $5 $way
        ip -n "$1" xfrm state add src "$7" dst "$8" proto esp spi "$9" reqid 42 mode tunnel if_id 42 \
            aead 'rfc4106(gcm(aes))' 0x0102030405060708090a0b0c0d0e0f1011121314 128
        ip -n "$1" xfrm policy add dir "$6" if_id 42 tmpl src "$7" dst "$8" proto esp reqid 42 mode tunnel
    done
}
ip netns attach here $$
ip address add 198.51.100.2/32 dev lo
ip -n net route add 198.51.100.2/32 via 10.0.0.2
ip -n net link add ipsec1 type xfrm dev lo if_id 42
ip link add ipsec0 type xfrm dev lo if_id 42
security here 198.51.100.2 203.0.113.1 0x1001 0x1002
security net 203.0.113.1 198.51.100.2 0x1002 0x1001
ip address add 10.7.0.2/24 dev ipsec0
ip -n net address add 10.7.0.1/24 dev ipsec1
ip link set ipsec0 up
ip -n net link set ipsec1 up
ip route add 203.0.113.1/32 via 10.0.0.1 dev eth0
ip route add default dev ipsec0 metric 50
check "K6 ipsec0 names lo as its lower link → its underlay is eth0, not lo" within 60 chain ipsec0 eth0
check "K6 the underlay of ipsec0 → connctl explain calls it a guess" told <(connctl explain) 'guess +eth0, the default route without the tunnel'
call 10.7.0.2
# Moves the tunnel as MOBIKE does (RFC 4555). The outer addresses, those of lo, stay the same.
ip -n net route replace 198.51.100.2/32 via 10.1.0.2
uplink down
ip route replace 203.0.113.1/32 via 10.1.0.1 dev wwan0
check "K6 the cable is pulled and the outer route moves → the underlay of ipsec0 is wwan0" within 60 chain ipsec0 wwan0
check "I5 ipsec0 has moved to the modem → the connection still echoes" echoes
check "I5 I0 ipsec0 has moved to the modem → connd neither drains nor destroys the connection" untold /run/guard '"severity": ?"(drain|destroy)"'
ip route del default dev ipsec0 metric 50
exec {socket}>&-
ip link del ipsec0

echo "# an IPsec policy"
# The kernel applies IPsec policies after routing, and shows them only to CAP_NET_ADMIN. So connd
# reports the same path as without them.
ip xfrm policy flush
ip xfrm state flush
ip -n net xfrm policy flush
ip -n net xfrm state flush
key='rfc4106(gcm(aes))' material=0x0102030405060708090a0b0c0d0e0f1011121314
policy() {
    ip -n "$1" xfrm state add src "$2" dst "$3" proto esp spi "$4" reqid 7 mode transport aead "$key" $material 128
    ip -n "$1" xfrm policy add src "$2" dst "$3" dir "$5" tmpl proto esp reqid 7 mode transport
}
policy here 10.1.0.2 $server 0x2001 out
policy here $server 10.1.0.2 0x2002 in
policy net $server 10.1.0.2 0x2002 out
policy net 10.1.0.2 $server 0x2001 in
check "K6 IPsec by policy, without a tunnel link → the default path uses wwan0" within 60 chain wwan0
call 10.1.0.2
check "IPsec by policy → the server's IPsec states count the connection's bytes" told <(ip -s -n net xfrm state list) '[1-9][0-9]*\(bytes\)'

finish connd.service
