#!/bin/bash
# connd on a kernel without IPv6: AF_INET6 can be neither queried nor listened to, and IPv4 works as
# usual (K2).
# kernel: ipv6.disable=1
cd "$(dirname "$(readlink -f "$0")")" || exit
. ./tap.sh
. ./connection.sh

status() { connctl status --json | tr -d ' \n'; }

check "this kernel has no IPv6" test ! -e /proc/net/if_inet6
check "connd runs since the boot" within 120 is active systemctl is-active connd.service
check "reload" configure <<<'links: [{match: "uplink", medium: wired}]'
check "K2 without a network there is none, and that is known" connctl wait none --timeout 2m
check "K2 IPv6 is unsatisfied, and why" told <(status) '"ipv6":\{[^}]*"reason":"unsupported"'

ip netns add net
ip -n net link set lo up
ip link add uplink type veth peer name far netns net
ip -n net link set far up
ip -n net address add 10.0.1.1/24 dev far
serve net
ip link set uplink up
ip address add 10.0.1.2/24 dev uplink
ip route add default via 10.0.1.1
check "K2 IPv4 works" connctl wait wired --timeout 2m
check "K2 and IPv6 still says why it does not" told <(status) '"ipv6":\{[^}]*"reason":"unsupported"'
call 10.0.1.2
check "K2 a path to an IPv6 destination says the same" told <(connctl path 2001:db8::1 --json) '"unsupported"'
ip route del default
check "I10 the connection without a route is destroyed" within 60 told /run/guard '"severity": ?"destroy"'
check "I10 its guard is over" within 60 over

finish connd.service
