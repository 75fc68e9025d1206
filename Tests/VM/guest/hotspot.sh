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

# undisturbed: checks the connection over the cable.
undisturbed() {
    check "Wi-Fi changes, the default route uses the cable → connd still reports wired" connctl is wired
    check "I0 Wi-Fi changes → the connection over the cable still echoes" echoes
    check "I0 Wi-Fi changes → connd reports nothing about the connection over the cable" untold /run/guard '"severity"'
}
# typed TYPE [COMMAND...]: prints the link of that type. COMMAND enters the namespace, if any.
typed() {
    local type=$1
    shift
    "$@" iw dev | awk -v type="$type" '$1 == "Interface" { name = $2 } $1 == "type" && $2 == type { print name; found = 1 } END { exit !found }'
}
peer() { ip netns exec peer "$@"; }

check "boot → connd.service is active" within 120 is active systemctl is-active connd.service
check "reload with uplink as a wired link → succeeds" configure <<<'links: [{match: uplink, medium: wired}]'
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
check "the default route uses the cable → connd reports wired" connctl wait wired --timeout 2m
call 10.0.9.2

echo "# an access point"
printf '%s\n' interface=wlan0 channel=1 ssid=mine $common >/run/mine.conf
systemd-run --quiet --unit=mine hostapd /run/mine.conf
check "hostapd starts → wlan0 is an access point" within 60 typed AP
ip address add 10.0.4.1/24 dev wlan0
check "K5 wlan0 is an access point → connctl links lists the role accessPoint, without an SSID" within 60 listed '"medium": "wifi"' '"role": "accessPoint", "ssid": null'
printf '%s\n' ctrl_interface=/run/peer 'network={' 'ssid="mine"' key_mgmt=NONE '}' >/run/peer.conf
systemd-run --quiet --unit=peer ip netns exec peer wpa_supplicant -Dnl80211 -i wlan1 -c /run/peer.conf
check "another device selects the SSID of this machine → it joins" within 60 bash -c 'wpa_cli -p /run/peer -i wlan1 status | grep COMPLETED'
ip -n peer address add 10.0.4.2/24 dev wlan1
check "the other device has joined → this machine answers its ping" within 60 peer busybox ping -c 1 -W 5 10.0.4.1
check "K5 the destination is a client of the access point → connd reports the medium wifi" told <(connctl path 10.0.4.2 --json) '"medium": ?"wifi"'
undisturbed
check "I4 this machine is an access point → connctl networks does not list its SSID" untold <(connctl networks --json) mine
systemctl stop peer.service mine.service
ip address flush dev wlan0
check "hostapd stops → wlan0 is not an access point" within 60 typed managed
undisturbed

echo "# a client in a Wi-Fi Direct group"
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
# owns OWNER MEMBER [WHERE]: OWNER creates a group, and MEMBER joins it. The command WHERE enters
# OWNER's namespace, if any.
owns() {
    check "device $1 creates a Wi-Fi Direct group → OK" within 60 is 'OK' "$1" p2p_group_add
    check "device $1 has created a Wi-Fi Direct group → the group has a link" within 60 typed P2P-GO $3
    group=$(typed P2P-GO $3)
    check "device $1, the group owner, accepts members by PIN" is "$pin|OK" at "$group" "$1" wps_pin any $pin
    "$2" p2p_find >/dev/null
    check "device $2 searches for Wi-Fi Direct devices → it finds one" within 60 is '..:..:..:..:..:..' "$2" p2p_peers
    check "device $2 joins the Wi-Fi Direct group → OK" is OK "$2" p2p_connect "$("$2" p2p_peers)" $pin join
}
owns there here "ip netns exec peer"
check "this machine has joined the group → it has a P2P client link" within 60 typed P2P-client
member=$(typed P2P-client)
check "K5 this machine is a group client → connctl links lists the role p2pClient and the SSID" within 60 lists "$member" '"medium": "wifi"' '"role": "p2pClient", "ssid": "DIRECT-' '"state": "up"'
ip address add 10.0.5.2/24 dev "$member"
ip -n peer address add 10.0.5.1/24 dev "$group"
check "this machine is a group client → the group owner answers its ping" within 60 busybox ping -c 1 -W 5 10.0.5.1
check "K5 the destination is the group owner → connd reports the medium wifi" told <(connctl path 10.0.5.1 --json) '"medium": ?"wifi"'
undisturbed
check "removing the Wi-Fi Direct group → succeeds" at "$group" there p2p_group_remove "$group"
check "the group is removed → this machine has no P2P client link" within 60 exits 1 typed P2P-client
undisturbed

echo "# the owner of a Wi-Fi Direct group"
there p2p_flush >/dev/null
here p2p_flush >/dev/null
owns here there ""
check "K5 this machine is a group owner → connctl links lists the role p2pGroupOwner, without an SSID" within 60 \
    lists "$group" '"medium": "wifi"' '"role": "p2pGroupOwner", "ssid": null'
check "the other device has joined the group → it has a P2P client link" within 60 typed P2P-client ip netns exec peer
member=$(typed P2P-client ip netns exec peer)
check "the other device has joined the group → connctl links lists the owner's link as up" within 60 lists "$group" '"state": "up"'
ip address add 10.0.6.1/24 dev "$group"
ip -n peer address add 10.0.6.2/24 dev "$member"
check "this machine is the group owner → the member answers its ping" within 60 busybox ping -c 1 -W 5 10.0.6.2
undisturbed
check "this machine was in Wi-Fi Direct groups → connctl networks lists none of them" untold <(connctl networks --json) DIRECT

check "connd has logged no warnings" is '' journalctl --quiet --unit=connd --priority=warning --output=cat _COMM=connd
check "connd's journal contains no SSID" untold <(journalctl --unit=connd --output=cat _COMM=connd) '(mine|DIRECT)'
finish connd.service mine.service peer.service here.service there.service
