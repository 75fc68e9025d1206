#!/bin/bash
# connd and links above others: bonds and a team (K6, I2).
# Each has two cables to one router in the namespace "net". Behind the router is a server. Each is
# tested with a connection that carries bytes.
cd "$(dirname "$(readlink -f "$0")")" || exit
. ./tap.sh
. ./connection.sh

# carrier PORT up|down: plugs a cable in, or pulls it, at the other end.
carrier() { ip -n net link set "far$1" "$2"; }
# without LINK: removes the ports, and the link above them.
without() {
    ip link del "$1" 2>/dev/null
    for port in 0 1; do ip link set "port$port" nomaster; ip link set "port$port" down; done
}

ip netns add net
ip -n net link set lo up
ip -n net link add br0 type bridge
ip -n net link set br0 up
ip -n net address add 10.0.1.1/24 dev br0
for port in 0 1; do
    ip link add "port$port" type veth peer name "far$port" netns net
    ip -n net link set "far$port" master br0
    ip -n net link set "far$port" up
done
serve net
check "connd runs since the boot" within 120 is active systemctl is-active connd.service
check "reload" configure <<<'links: [{match: "port*", medium: wired}]'

# try LINK: the checks for any kind of link above both ports. `active LINK` prints its active port.
try() {
    local link=$1 port other
    ip link set "$link" up
    ip address add 10.0.1.2/24 dev "$link"
    ip route replace default via 10.0.1.1 dev "$link"
    check "K6 the $link is up, and takes the medium of a port" connctl wait wired --timeout 2m
    call 10.0.1.2
    port=$(active "$link") other=$((1 - port))
    carrier $other down
    check "the $link has lost the port that it does not send by" within 60 lost "$other"
    sleep 1  # miimon, and what teamd takes a link for
    check "I0 the connection by the $link goes on" echoes
    carrier $other up
    check "the $link has both ports" within 60 carries "$other"
    sleep 1
    check "I2 and nothing is told of it" untold /run/guard '"severity"'
    carrier "$port" down
    check "the $link has lost the port that it sent by" within 60 lost "$port"
    check "K6 the $link sends by the other one" within 60 is "$other" active "$link"
    check "I0 the connection by the $link goes on over the other port" echoes
    check "I2 and nothing ends it" untold /run/guard '"severity": ?"destroy"'
    check "K6 the path by the $link is there" connctl is wired
    carrier "$other" down
    check "I2 with both ports gone the connection by the $link is destroyed" within 60 told /run/guard '"severity": ?"destroy"'
    check "I2 its guard is over" within 60 over
    check "K6 there is no network" connctl wait none --timeout 2m
    exec {socket}>&-
    for port in 0 1; do carrier $port up; done
}
lost() { ! carries "$1"; }
carries() { [ "$(cat "/sys/class/net/port$1/carrier")" = 1 ]; }

for mode in active-backup balance-xor; do
    echo "# a bond, $mode"
    ip link add bond0 type bond mode $mode miimon 20
    for port in 0 1; do ip link set "port$port" master bond0; done
    # A hashing bond may use either port: the connection continues over the other one.
    active() {
        local name
        name=$(cat /sys/class/net/bond0/bonding/active_slave)
        for port in 0 1; do carries $port && [ "${name:-port$port}" = "port$port" ] && echo $port && return; done
    }
    try bond0
    without bond0
done

echo "# a team"
cat >/run/team.conf <<'C'
{"device": "team0", "runner": {"name": "activebackup"}, "link_watch": {"name": "ethtool"}, "ports": {"port0": {}, "port1": {}}}
C
systemd-run --quiet --unit=team teamd -f /run/team.conf
check "the team is there" within 60 test -e /sys/class/net/team0
active() { teamdctl team0 state item get runner.active_port | tr -d port; }
check "it has a port" within 60 is '[01]' active team0
try team0

finish connd.service
