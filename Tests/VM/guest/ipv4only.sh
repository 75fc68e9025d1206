#!/bin/bash
# connd on a kernel without IPv6: AF_INET6 can be neither queried nor listened to, and IPv4 works as
# usual (K2).
# kernel: ipv6.disable=1
cd "$(dirname "$(readlink -f "$0")")" || exit
. ./tap.sh
. ./connection.sh

status() { connctl status --json | tr -d ' \n'; }

check "ipv6.disable=1 → the kernel has no IPv6" test ! -e /proc/net/if_inet6
check "boot → connd.service is active" within 120 is active systemctl is-active connd.service
check "reload with uplink as a wired link → succeeds" configure <<<'links: [{match: "uplink", medium: wired}]'
check "K2 no network on a kernel without IPv6 → connd reports none" connctl wait none --timeout 2m
check "K2 a kernel without IPv6 → connd reports IPv6 as unsupported" told <(status) '"ipv6":\{[^}]*"reason":"unsupported"'

ip netns add net
ip -n net link set lo up
ip link add uplink type veth peer name far netns net
ip -n net link set far up
ip -n net address add 10.0.1.1/24 dev far
serve net
ip link set uplink up
ip address add 10.0.1.2/24 dev uplink
ip route add default via 10.0.1.1
check "K2 an IPv4 default route is added → connd reports wired" connctl wait wired --timeout 2m
check "K2 IPv4 works → connd still reports IPv6 as unsupported" told <(status) '"ipv6":\{[^}]*"reason":"unsupported"'
call 10.0.1.2
check "K2 the destination is an IPv6 address → connd reports the path as unsupported" told <(connctl path 2001:db8::1 --json) '"unsupported"'
ip route del default
check "I10 the default route is removed → connd destroys the connection" within 60 told /run/guard '"severity": ?"destroy"'
check "I10 connd has destroyed the connection → connctl guard exits" within 60 over

finish connd.service
