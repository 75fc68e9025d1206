#!/bin/bash
# connd and links above others: bonds and a team (K6, I2).
# Each has two cables to one router in the namespace "net". Behind the router is a server. A
# connection through the link carries bytes during each test.
cd "$(dirname "$(readlink -f "$0")")" || exit
. ./tap.sh
. ./connection.sh

# carrier PORT up|down: plugs a cable in, or pulls it, at the other end.
carrier() { ip -n net link set "far$1" "$2"; }
# without LINK: deletes LINK, and sets its ports down.
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
check "boot → connd.service is active" within 120 is active systemctl is-active connd.service
check "reload with port* as wired links → succeeds" configure <<<'links: [{match: "port*", medium: wired}]'

# try LINK: the checks for any kind of link above both ports. `active LINK` prints its active port.
try() {
    local link=$1 port other
    ip link set "$link" up
    ip address add 10.0.1.2/24 dev "$link"
    ip route replace default via 10.0.1.1 dev "$link"
    check "K6 $link is up, with an address and a default route → connd reports its ports' medium, wired" connctl wait wired --timeout 2m
    call 10.0.1.2
    port=$(active "$link") other=$((1 - port))
    carrier $other down
    check "the cable of the inactive port is pulled → that port of $link has no carrier" within 60 lost "$other"
    sleep 1  # until the bond (miimon) or teamd has noticed
    check "I0 $link has lost its inactive port → the connection still echoes" echoes
    carrier $other up
    check "the cable of the inactive port is plugged in → that port of $link has a carrier" within 60 carries "$other"
    sleep 1
    check "I2 $link has lost and regained its inactive port → connd reports nothing about the connection" untold /run/guard '"severity"'
    carrier "$port" down
    check "the cable of the active port is pulled → that port of $link has no carrier" within 60 lost "$port"
    check "K6 $link has lost its active port → it sends by the other port" within 60 is "$other" active "$link"
    check "I0 $link has lost its active port → the connection still echoes" echoes
    check "I2 $link has lost its active port → connd does not destroy the connection" untold /run/guard '"severity": ?"destroy"'
    check "K6 $link has lost its active port → connd still reports wired" connctl is wired
    carrier "$other" down
    check "I2 $link has lost both ports → connd destroys the connection" within 60 told /run/guard '"severity": ?"destroy"'
    check "I2 $link has lost both ports → connctl guard exits" within 60 over
    check "K6 $link has lost both ports → connd reports none" connctl wait none --timeout 2m
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
check "teamd has started → team0 exists" within 60 test -e /sys/class/net/team0
active() { teamdctl team0 state item get runner.active_port | tr -d port; }
check "teamd has started → team0 has an active port" within 60 is '[01]' active team0
try team0

finish connd.service
