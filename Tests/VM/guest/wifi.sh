#!/bin/bash
# connd and Wi-Fi: the kernel's mac80211, wpa_supplicant and hostapd as usual; only the radios are
# software (mac80211_hwsim).
# wlan0 is the station. In their own namespaces, wlan1 and wlan2 are two access points of the
# network "home" (10.0.1.0/24). wlan3 is that of the network "cafe" (10.0.2.0/24), which in the end
# also answers for 10.0.1.1, like many a hotspot. Behind both is a server, 198.51.100.9.
cd "$(dirname "$(readlink -f "$0")")" || exit
. ./tap.sh
. ./connection.sh
. ./radios.sh

supplicant() { wpa_cli -i wlan0 "$@"; }
# station WORD...: whether the supplicant's status has the lines.
station() {
    local status word
    status=$(supplicant status) || return
    for word; do grep -qxF "$word" <<<"$status" || { echo "$status"; return 1; }; done
}

# scan: makes the station scan one channel, and waits for the end.
scan() {
    local before
    before=$(grep -c 'scan finished' /run/events)
    iw dev wlan0 scan trigger freq 2437 >/dev/null && within 30 scanned $((before + 1))
}
scanned() { [ "$(grep -c 'scan finished' /run/events)" -ge "$1" ]; }
scans() { scan && scan && scan; }

# joins SSID: whether the station has joined this open network, which it tries to.
joins() { iw dev wlan0 link | grep -qF "SSID: $1" || { iw dev wlan0 connect "$1"; return 1; }; }

echo "# radios"
check "connd runs since the boot" within 120 is active systemctl is-active connd.service
beyond home:wlan1 home:wlan2 cafe:wlan3
printf '%s\n' interface=wlan1 channel=1 $home >/run/wlan1.conf
printf '%s\n' interface=wlan2 channel=6 $home >/run/wlan2.conf
# It is metered (the network cost element: a fixed allotment).
printf '%s\n' interface=wlan3 channel=11 ssid=cafe vendor_elements=dd080050f21102000000 $common >/run/wlan3.conf
bridged home
access_point home wlan1
access_point home wlan2
access_point cafe wlan3
ip -n cafe address add 10.0.2.1/24 dev wlan3
for network in home cafe; do serve $network; done

echo "# association"
# An emulated machine is slow: a roam may take longer than the default of a second.
check "reload" configure <<<'grace: {wifi: 2m}'
connctl watch --json >>/run/watch 2>&1 &
cat >/run/station.conf <<'C'
ctrl_interface=/run/wpa_supplicant
network={
 ssid="home"
 psk="wrong-horse"
}
network={
 ssid="cafe"
 key_mgmt=NONE
 disabled=1
}
C
systemd-run --quiet --unit=station wpa_supplicant -Dnl80211 -i wlan0 -c /run/station.conf
check "the supplicant runs" within 60 station
ip link set wlan0 up
lease 10.0.1
# With a wrong passphrase the association succeeds, and the following handshake does not.
check "K3 associated without keys: dormant" within 120 told /run/watch '"reason": ?"dormant"'
check "K3 with address, route and carrier, dormant is not reachable" connctl is none
check "K3 nothing else was told so far" untold /run/watch '"to": ?"wifi"'
supplicant set_network 0 psk '"correct-horse"' >/dev/null
supplicant select_network 0 >/dev/null
check "K3 after the handshake it is reachable" connctl wait wifi --timeout 2m
check "the supplicant agrees" within 60 station wpa_state=COMPLETED ssid=home
check "K5 sysfs is the evidence" told <(connctl links --json | grep '"name": *"wlan0"') '"source": ?"(deviceType|phy80211)"'
check "the listing names the network" within 60 listed '"role": "station", "ssid": "home"' '"security": ["personal"]'
check "and its access point" listed "\"bssid\": \"$(supplicant status | sed -n 's/^bssid=//p')\"" '"metered": false'
check "and how well it is heard" listed '"signal": -' '"transmitRate": '
check "for people, too" told <(connctl links) '^wlan0 .*"home" -[0-9]+ dBm'
check "reload" configure <<<$'grace: {wifi: 2m}\nidentify: hidden'
check "where networks are hidden, nobody is told" listed '"ssid": null' '"bssid": null' '"security": ["personal"]'
check "nor are people" untold <(connctl links) home
check "reload" configure <<<'grace: {wifi: 2m}'
check "a user says that data is to be saved on this network" connctl constrain --network home
check "I8 it holds at once" connctl is constrained
check "the network is listed by its name, and known by a hash" networks '"name": "home"' '"medium": "wifi"' '"constrained": true'
check "what is kept of it is no name" untold /var/lib/connd/connd.networks home
call 10.0.1.2

echo "# scans"
iw event >/run/events &
events=$!
check "what the radio does is heard" within 120 scan
# The watchdog is due every half a minute.
check "D7 three scans wake nobody" within 120 asleep scans
check "and were heard" scanned 4
kill $events

echo "# roam"
for target in $(bssid home wlan1) $(bssid home wlan2); do station "bssid=$target" >/dev/null || break; done
supplicant scan >/dev/null
check "the other access point is found" within 60 bash -c "wpa_cli -i wlan0 bss $target | grep ssid=home"
: >/run/watch
check "the station roams" within 60 bash -c "wpa_cli -i wlan0 roam $target | grep OK"
check "to the other access point" within 60 station "bssid=$target" wpa_state=COMPLETED
check "T2 the roam is told" within 60 told /run/watch '"to": ?"wifi"'
check "the network is there" connctl wait wifi --timeout 2m
check "I10 the connection goes on" echoes
check "I10 and connd says so: nothing is destroyed" untold /run/guard destroy
check "I10 for nobody" untold /run/watch '"severity": ?"destroy"'
check "I10 the guard goes on" kill -0 $guard
check "I4 the other access point is of the same network: data is to be saved" connctl is constrained

echo "# another network with the same addresses"
supplicant select_network 1 >/dev/null
check "the station switches to the other network" within 120 station ssid=cafe wpa_state=COMPLETED
# No host answers for the router there: only the SSID differs.
check "I4 another SSID is another network, before anything is sent there" within 60 told /run/guard '"reason": ?"networkChanged".*"destroy"'
check "an access point that says so has its network paid for by use" within 60 listed '"ssid": "cafe"' '"security": ["open"]' '"metered": true' '"expensive": true'
ip -n cafe address add 10.0.1.1/24 dev wlan3
check "to connd the path is back: the kernel kept address and route" connctl wait wifi --timeout 2m
check "I4 the guard is over" within 60 over
exec {socket}>&-
check "I4 of another network nobody has said so, whatever its addresses" connctl is not-constrained
check "nor is it listed so" networks '"name": "cafe"' '"constrained": null'

echo "# another network with other addresses"
call 10.0.1.2
lease 10.0.2
check "I1 the address is gone: the connection is destroyed" within 60 told /run/guard '"reason": ?"sourceAddressLost".*"destroy"'
check "I1 the guard is over" within 60 over
exec {socket}>&-
check "the new network serves" connctl wait wifi --timeout 2m
check "and is expensive, as its access point says" connctl wait expensive --timeout 1m
call 10.0.2.2

echo "# the access point vanishes"
check "the default grace" configure </dev/null
systemctl kill --signal=KILL wlan3.service
ip -n cafe link set wlan3 down
check "T1 the loss is told" connctl wait none --timeout 2m
check "I10 after the grace the connection is destroyed" within 60 told /run/guard '"reason": ?"interfaceLost".*"destroy"'
check "I10 the guard is over" within 60 over
check "I10 in the grace it was advice" is '"advise" "destroy"' bash -c "grep -oE '\"(advise|drain|destroy)\"' /run/guard | xargs -n 1 printf '\"%s\" ' | sed 's/ $//'"
exec {socket}>&-

echo "# rfkill"
supplicant select_network 0 >/dev/null
check "home again" within 120 station ssid=home wpa_state=COMPLETED
lease 10.0.1
check "the network is there again" connctl wait wifi --timeout 2m
check "and costs nothing" connctl wait not-expensive --timeout 1m
call 10.0.1.2
rfkill=$(echo /sys/class/net/wlan0/phy80211/rfkill*/soft)
echo 1 >"$rfkill"
check "K3 a blocked radio has no path" connctl wait none --timeout 2m
check "I2 its connections are destroyed" within 60 told /run/guard '"reason": ?"interfaceLost".*"destroy"'
check "I2 the guard is over" within 60 over
exec {socket}>&-
echo 0 >"$rfkill"
ip link set wlan0 up
check "the station comes back by itself" within 120 station ssid=home wpa_state=COMPLETED
lease 10.0.1
check "and the network with it" connctl wait wifi --timeout 2m

echo "# two networks of one name"
check "reload" configure <<<'grace: {wifi: 2m}'
call 10.0.1.2
printf '%s\n' interface=wlan3 channel=11 ${home/bridge=br0} >/run/twin.conf
ip -n cafe link set wlan3 up
access_point cafe twin
systemctl stop wlan1.service wlan2.service
check "the station joins the other one by itself" within 120 station ssid=home wpa_state=COMPLETED "bssid=$(bssid cafe wlan3)"
check "to connd the path is back" connctl wait wifi --timeout 2m
check "I4 back on the network, data is to be saved again" connctl wait constrained --timeout 1m
echo "is anybody there?" >&$socket
check "I4 another gateway answers behind the same SSID: the network is another" within 120 told /run/guard '"reason": ?"networkChanged".*"destroy"'
check "I4 the guard is over" within 60 over
exec {socket}>&-
check "connd is started anew" systemctl restart connd.service
check "I4 and remembers that" connctl wait constrained --timeout 1m
check "until it is told to forget it" connctl forget home
check "then it is not so any more" connctl is not-constrained

echo "# a name of odd octets, as long as can be, and hidden"
odd=ff1b5c680ae280ae$(printf '2d%.0s' {1..24})
systemctl stop twin.service
printf '%s\n' interface=wlan3 channel=11 ssid2=$odd ignore_broadcast_ssid=1 $common >/run/odd.conf
access_point cafe odd
network=$(supplicant add_network)
for setting in "ssid $odd" "key_mgmt NONE" "scan_ssid 1"; do supplicant set_network "$network" $setting >/dev/null; done
supplicant select_network "$network" >/dev/null
check "the station joins it" within 120 station wpa_state=COMPLETED "bssid=$(bssid cafe wlan3)" key_mgmt=NONE
check "the listing names it, and hurts no terminal" within 60 listed '"ssid": "\\xff\u001b\\\\h\n\u202e------------------------"' '"security": ["open"]'
check "nor do people see what would" untold <(connctl links) $'\e|\xe2\x80\xae'
check "but they see its name" told <(connctl links) '^wlan0 .*-----'
check "no name of a network is in the journal or the history" untold <(journalctl --unit=connd --output=cat _COMM=connd; connctl history --json) '(home|cafe|-----)'
echo "# the drivers go, and come again"
systemctl stop station.service odd.service
check "the driver is unloaded" within 60 modprobe -r mac80211_hwsim
check "and nl80211 with it" within 60 modprobe -r mac80211 cfg80211
check "no family is left" untold <(busybox ls /sys/module) '^(cfg80211|mac80211)$'
check "connd answers" connctl is none
check "and lists no link of Wi-Fi" untold <(connctl links --json) '"medium": ?"wifi"'
check "they are loaded again" modprobe mac80211_hwsim radios=2
check "there is a radio" within 30 test -e /sys/class/net/wlan1
check "K5 it is listed as one of Wi-Fi" within 60 listed '"medium": "wifi"' '"role": "station", "ssid": null'
ip netns add again
iw phy "$(phy wlan1)" set netns name again
printf '%s\n' interface=wlan1 channel=1 ssid=again $common >/run/again.conf
access_point again again
ip link set wlan0 up
check "it joins a network" within 60 joins again
check "I4 of which connd hears" within 60 listed '"ssid": "again"' '"security": ["open"]'
lease 10.0.7
check "K3 and the network is there" connctl wait wifi --timeout 2m

check "connd complained of nothing" is '' journalctl --quiet --unit=connd --priority=warning --output=cat _COMM=connd
finish connd.service station.service twin.service odd.service again.service wlan1.service wlan2.service wlan3.service
