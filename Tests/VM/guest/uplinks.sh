# Sourced by the tunnel scenarios: a machine with a cable, preferred, and a modem (two veths).
# Behind the routers of both is the world, the namespace "net", with the server and the tunnels'
# remote ends, 203.0.113.1 and 203.0.113.2.

# uplink up|down: plugs the cable in, with its route, or removes it.
uplink() {
    ip link set eth0 "$1"
    [ "$1" = down ] || ip route add default via 10.0.0.1 dev eth0 metric 100
}
# chain LINK...: whether the default path uses these links.
chain() {
    local links
    links=$(printf '"%s", ?' "$@")
    connctl status --json | grep -E "\"ipv4\".*\"chain\": ?\[${links%, ?}\]" || { connctl explain; return 1; }
}

ip netns add net
ip -n net link set lo up
for number in 0 1; do
    [ $number = 0 ] && link=eth0 || link=wwan0
    ip link add $link type veth peer name far$number netns net
    ip link set $link up
    ip -n net link set far$number up
    ip address add 10.$number.0.2/24 dev $link
    ip -n net address add 10.$number.0.1/24 dev far$number
    ip route add default via 10.$number.0.1 dev $link metric $((100 + 100 * number))
done
for address in 203.0.113.1 203.0.113.2; do ip -n net address add $address/32 dev lo; done
ip netns exec net sysctl -qw net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0
serve net
