#!/bin/bash
# Makes the recordings of Tests/Fixtures/recordings that need a radio or a modem: NAME.recording and
# connctl's output NAME.json.
cd "$(dirname "$(readlink -f "$0")")" || exit
. ./tap.sh
. ./connection.sh
. ./radios.sh

supplicant() { wpa_cli -i wlan0 "$@"; }
# record NAME: starts a connd that records, and connctl watch.
record() {
    name=$1
    rm -f /run/recorded/*
    connd --config /run/recorded.yaml --socket /run/recorded/connd.sock --record "/run/$name.recording" 2>"/run/$name.log" &
    recorder=$!
    check "connd --record starts → it reports online" within 60 connctl --socket /run/recorded/connd.sock wait online --timeout 1m
    connctl --socket /run/recorded/connd.sock watch --json >"/run/$name.json" 2>/dev/null &
    watcher=$!
    check "connctl watch has received a snapshot" within 60 told "/run/$name.json" '"snapshot"'
}
# recorded: ends the recording, and checks that its replay prints what connctl has printed.
recorded() {
    kill $recorder
    wait $recorder
    kill $watcher 2>/dev/null
    check "$name is replayed → connd prints the same events as when it was recorded" is '' bash -c "connd --replay /run/$name.recording | diff - /run/$name.json"
    cp "/run/$name.recording" "/run/$name.json" .
    echo "# $name: $(stat -c %s "$name.recording") bytes"
}

mkdir /run/recorded
echo "grace: {wifi: 2m}" >/run/recorded.yaml
beyond home:wlan1 home:wlan2 cafe:wlan3
printf '%s\n' interface=wlan1 channel=1 $home >/run/wlan1.conf
printf '%s\n' interface=wlan2 channel=6 $home >/run/wlan2.conf
printf '%s\n' interface=wlan3 channel=11 ssid=cafe $common >/run/wlan3.conf
bridged home
access_point home wlan1
access_point home wlan2
access_point cafe wlan3
ip -n cafe address add 10.0.1.1/24 dev wlan3
printf '%s\n' ctrl_interface=/run/wpa_supplicant 'network={' 'ssid="home"' 'psk="correct-horse"' '}' \
    'network={' 'ssid="cafe"' key_mgmt=NONE disabled=1 '}' >/run/station.conf
systemd-run --quiet --unit=station wpa_supplicant -Dnl80211 -i wlan0 -c /run/station.conf
ip link set wlan0 up
lease 10.0.1
check "wpa_supplicant has started → the station joins home" within 120 bash -c 'wpa_cli -i wlan0 status | grep COMPLETED'

record roam
for target in $(bssid home wlan1) $(bssid home wlan2); do supplicant status | grep -q "^bssid=$target" || break; done
supplicant scan >/dev/null
check "a scan → the second access point of home is found" within 60 bash -c "wpa_cli -i wlan0 bss $target | grep ssid=home"
check "wpa_cli roam to the second access point → OK" is OK supplicant roam "$target"
check "the station roams → wpa_supplicant reports the second access point" within 60 bash -c "wpa_cli -i wlan0 status | grep -x bssid=$target"
check "the station has roamed → connctl watch prints a transition to wifi" within 60 told /run/roam.json '"to": "wifi"'
recorded

record other-hotspot
supplicant select_network 1 >/dev/null
check "the station selects cafe → connctl watch prints networkChanged" within 120 told /run/other-hotspot.json '"networkChanged"'
check "the station has joined cafe → connctl watch prints a transition to wifi" within 60 told /run/other-hotspot.json '"to": "wifi"'
recorded
systemctl stop station.service
ip link set wlan0 down

modprobe wwan_hwsim devices=1
check "wwan_hwsim is loaded → wwan0 exists" within 30 test -e /sys/class/net/wwan0
mkfifo /run/modem
python3 modem_manager.py unix:path=/run/dbus/system_bus_socket /run/modem >/run/modem.answers &
check "the ModemManager stand-in is on the bus" within 60 grep ready /run/modem.answers
# dial NUMBER ADDRESS: reports bearer NUMBER as connected, and configures its link.
dial() {
    echo '{"publish": {"Bearer/'"$1"'": {"Bearer": {"Interface": ["s", "wwan0"], "Connected": ["b", true], "Suspended": ["b", false]}},' \
        '"Modem/0": {"Modem": {"AccessTechnologies": ["u", 16384], "Bearers": ["ao", ["Bearer/'"$1"'"]]},' \
        '"Modem.Modem3gpp": {"RegistrationState": ["u", 1]}}}}' >/run/modem
    check "the ModemManager stand-in reports bearer $1 as connected" within 30 grep done /run/modem.answers
    ip link set wwan0 up
    ip address add "$2/30" dev wwan0
    ip route add default dev wwan0
}
dial 0 100.64.0.5
record redial
echo '{"set": ["Bearer/0", "Bearer", {"Connected": ["b", false]}]}' >/run/modem
ip address flush dev wwan0
ip link set wwan0 down
check "the bearer is disconnected → connctl watch prints a transition to none" within 60 told /run/redial.json '"to": "none"'
dial 1 100.64.0.9
check "the modem dials again → connctl watch prints a transition to cellular" within 60 told /run/redial.json '"to": "cellular"'
recorded

# A VPN takes all traffic, as wg-quick sets it up, and releases it.
record vpn
umask 077
wg genkey >/run/wg.key
ip link add wg0 index 90 type wireguard
wg set wg0 private-key /run/wg.key fwmark 51820 peer "$(wg genkey | wg pubkey)" endpoint 203.0.113.1:51820 allowed-ips 0.0.0.0/0
ip address add 10.8.0.2/24 dev wg0
ip link set wg0 up
ip route add default dev wg0 table 51820
ip rule add not fwmark 51820 table 51820
ip rule add table main suppress_prefixlength 0
check "a VPN takes all traffic → connctl watch prints the VPN and its underlay" within 60 told /run/vpn.json '"interface": ?"wg0".*"chain": ?\["wg0", ?"wwan0"\]'
ip rule del table main suppress_prefixlength 0
ip rule del not fwmark 51820 table 51820
ip link del wg0
check "the VPN is removed → connctl watch prints an invalidation for wg0" within 60 told /run/vpn.json '"event": ?"invalidation".*"interface": ?"wg0"'
recorded
finish connd.service station.service
