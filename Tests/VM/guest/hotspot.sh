#!/bin/bash
# connd and Wi-Fi while this machine is not a station.
# It is an access point for others, and a member of Wi-Fi Direct groups, as the client of one and
# the owner of another. wlan0 is this machine's; wlan1, in the namespace "peer", is another
# device's. The default route uses a cable all the time, and a connection over it carries bytes: no
# report may mention Wi-Fi.
cd "$(dirname "$(readlink -f "$0")")" || exit
. ./tap.sh
. ./connection.sh
. ./radios.sh

# undisturbed: the checks of the connection over the cable.
undisturbed() {
    check "the way out is the cable still" connctl is wired
    check "I0 the connection by it goes on" echoes
    check "I0 and nothing was told of it" untold /run/guard '"severity"'
}
# typed TYPE [COMMAND...]: prints the link of that type, in COMMAND's namespace.
typed() {
    local type=$1
    shift
    "$@" iw dev | awk -v type="$type" '$1 == "Interface" { name = $2 } $1 == "type" && $2 == type { print name; found = 1 } END { exit !found }'
}
peer() { ip netns exec peer "$@"; }

check "connd runs since the boot" within 120 is active systemctl is-active connd.service
check "reload" configure <<<'links: [{match: uplink, medium: wired}]'
beyond peer:wlan1
ip netns add net
ip -n net link set lo up
ip link add uplink type veth peer name far netns net
ip -n net link set far up
ip -n net address add 10.0.9.1/24 dev far
serve net
ip link set uplink up
ip address add 10.0.9.2/24 dev uplink
ip route replace default via 10.0.9.1
check "the cable leads out" connctl wait wired --timeout 2m
call 10.0.9.2

echo "# an access point"
printf '%s\n' interface=wlan0 channel=1 ssid=mine $common >/run/mine.conf
systemd-run --quiet --unit=mine hostapd /run/mine.conf
check "this machine is an access point" within 60 typed AP
ip address add 10.0.4.1/24 dev wlan0
check "K5 it is listed as one, and as a member of no network" within 60 listed '"medium": "wifi"' '"role": "accessPoint", "ssid": null'
printf '%s\n' ctrl_interface=/run/peer 'network={' 'ssid="mine"' key_mgmt=NONE '}' >/run/peer.conf
systemd-run --quiet --unit=peer ip netns exec peer wpa_supplicant -Dnl80211 -i wlan1 -c /run/peer.conf
check "another device joins it" within 60 bash -c 'wpa_cli -p /run/peer -i wlan1 status | grep COMPLETED'
ip -n peer address add 10.0.4.2/24 dev wlan1
check "and reaches this machine" within 60 peer busybox ping -c 1 -W 5 10.0.4.1
check "K5 what is sent there goes by Wi-Fi" told <(connctl path 10.0.4.2 --json) '"medium": ?"wifi"'
undisturbed
check "I4 a network of this machine's own is not one that it is in" untold <(connctl networks --json) mine
systemctl stop peer.service mine.service
ip address flush dev wlan0
check "it is one no more" within 60 typed managed
undisturbed

echo "# the client of a group of Wi-Fi Direct"
pin=12345670
for device in here:wlan0: 'there:wlan1:ip netns exec peer'; do
    IFS=: read -r name link where <<<"$device"
    printf '%s\n' "ctrl_interface=/run/$name" "device_name=$name" >"/run/$name.conf"
    systemd-run --quiet --unit="$name" $where wpa_supplicant -Dnl80211 -i "$link" -c "/run/$name.conf"
done
here() { wpa_cli -p /run/here -i "${link:-wlan0}" "$@"; }
there() { wpa_cli -p /run/there -i "${link:-wlan1}" "$@"; }
unset link
# at LINK COMMAND...: runs COMMAND with that link.
at() { link=$1 "${@:2}"; }
# owns OWNER MEMBER [WHERE]: OWNER creates a group, whose link is where WHERE leads, and MEMBER
# joins it.
owns() {
    check "$1 makes a group" within 60 is 'OK' "$1" p2p_group_add
    check "and has a link for it" within 60 typed P2P-GO $3
    group=$(typed P2P-GO $3)
    check "it lets others in" is "$pin|OK" at "$group" "$1" wps_pin any $pin
    "$2" p2p_find >/dev/null
    check "$2 finds it" within 60 is '..:..:..:..:..:..' "$2" p2p_peers
    check "and joins it" is OK "$2" p2p_connect "$("$2" p2p_peers)" $pin join
}
owns there here "ip netns exec peer"
check "this machine has a link for it" within 60 typed P2P-client
member=$(typed P2P-client)
check "K5 it is listed as a client" within 60 lists "$member" '"medium": "wifi"' '"role": "p2pClient", "ssid": "DIRECT-' '"state": "up"'
ip address add 10.0.5.2/24 dev "$member"
ip -n peer address add 10.0.5.1/24 dev "$group"
check "the owner is reached by it" within 60 busybox ping -c 1 -W 5 10.0.5.1
check "K5 what is sent there goes by Wi-Fi" told <(connctl path 10.0.5.1 --json) '"medium": ?"wifi"'
undisturbed
check "the group ends" at "$group" there p2p_group_remove "$group"
check "and its link goes" within 60 exits 1 typed P2P-client
undisturbed

echo "# the owner of a group of Wi-Fi Direct"
there p2p_flush >/dev/null
here p2p_flush >/dev/null
owns here there ""
check "K5 it is listed as its owner, and as a member of no network" within 60 \
    lists "$group" '"medium": "wifi"' '"role": "p2pGroupOwner", "ssid": null'
check "the other device has a link for it" within 60 typed P2P-client ip netns exec peer
member=$(typed P2P-client ip netns exec peer)
check "and is in it" within 60 lists "$group" '"state": "up"'
ip address add 10.0.6.1/24 dev "$group"
ip -n peer address add 10.0.6.2/24 dev "$member"
check "it is reached" within 60 busybox ping -c 1 -W 5 10.0.6.2
undisturbed
check "no group is known for a network" untold <(connctl networks --json) DIRECT

check "connd complained of nothing" is '' journalctl --quiet --unit=connd --priority=warning --output=cat _COMM=connd
check "no name of a network is in its journal" untold <(journalctl --unit=connd --output=cat _COMM=connd) '(mine|DIRECT)'
finish connd.service mine.service peer.service here.service there.service
