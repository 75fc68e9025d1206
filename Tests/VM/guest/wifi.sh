#!/bin/bash
# connd and Wi-Fi: the kernel's mac80211, wpa_supplicant and hostapd as usual; only the radios are
# software (mac80211_hwsim).
# wlan0 is the station. In their own namespaces, wlan1 and wlan2 are two access points of the
# network "home" (10.0.1.0/24). wlan3 is that of the network "cafe" (10.0.2.0/24), which later
# also answers for 10.0.1.1, as many hotspots do. Behind both is a server, 198.51.100.9.
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

# joins SSID: whether the station has joined this open network. Otherwise makes it try.
joins() { iw dev wlan0 link | grep -qF "SSID: $1" || { iw dev wlan0 connect "$1"; return 1; }; }

echo "# radios"
check "boot → connd.service is active" within 120 is active systemctl is-active connd.service
beyond home:wlan1 home:wlan2 cafe:wlan3
printf '%s\n' interface=wlan1 channel=1 $home >/run/wlan1.conf
printf '%s\n' interface=wlan2 channel=6 $home >/run/wlan2.conf
# The access point announces a metered network (network cost element: a fixed allotment).
printf '%s\n' interface=wlan3 channel=11 ssid=cafe vendor_elements=dd080050f21102000000 $common >/run/wlan3.conf
bridged home
access_point home wlan1
access_point home wlan2
access_point cafe wlan3
ip -n cafe address add 10.0.2.1/24 dev wlan3
for network in home cafe; do serve $network; done

echo "# association"
# An emulated machine is slow: a roam may take longer than the default of a second.
check "reload with a Wi-Fi grace period of 2 min → succeeds" configure <<<'grace: {wifi: 2m}'
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
check "wpa_supplicant answers" within 60 station
ip link set wlan0 up
lease 10.0.1
# With a wrong passphrase the association succeeds, and the following handshake does not.
check "K3 wlan0 is associated with a wrong passphrase → connd reports it as dormant" within 120 told /run/watch '"reason": ?"dormant"'
check "K3 wlan0 is dormant, with carrier, address and route → connd reports none" connctl is none
check "K3 wlan0 is dormant → connd has never reported wifi" untold /run/watch '"to": ?"wifi"'
supplicant set_network 0 psk '"correct-horse"' >/dev/null
supplicant select_network 0 >/dev/null
check "K3 the handshake succeeds → connd reports wifi" connctl wait wifi --timeout 2m
check "the handshake has succeeded → wpa_supplicant reports home as completed" within 60 station wpa_state=COMPLETED ssid=home
check "K5 connctl links names sysfs as the evidence for wlan0's medium" told <(connctl links --json | grep '"name": *"wlan0"') '"source": ?"(deviceType|phy80211)"'
check "connctl links lists wlan0's SSID and security" within 60 listed '"role": "station", "ssid": "home"' '"security": ["personal"]'
check "connctl links lists wlan0's access point, which is not metered" listed "\"bssid\": \"$(supplicant status | sed -n 's/^bssid=//p')\"" '"metered": false'
check "connctl links lists wlan0's signal and transmit rate" listed '"signal": -' '"transmitRate": '
check "connctl links without --json shows wlan0's SSID and signal" told <(connctl links) '^wlan0 .*"home" -[0-9]+ dBm'
check "reload with identify: hidden → succeeds" configure <<<$'grace: {wifi: 2m}\nidentify: hidden'
check "identify: hidden → connctl links --json lists neither SSID nor BSSID, but the security" listed '"ssid": null' '"bssid": null' '"security": ["personal"]'
check "identify: hidden → connctl links shows no SSID" untold <(connctl links) home
check "reload without identify: hidden → succeeds" configure <<<'grace: {wifi: 2m}'
check "the user overrides the network home as constrained → accepted" connctl constrain --network home on
check "I8 the network home was constrained → connd reports constrained immediately" connctl is constrained
check "the network home was constrained → connctl networks lists it by its SSID" networks '"name": "home"' '"medium": "wifi"' '"constrained": true'
check "the user wrote the network's name → connd's state file has it" told /var/lib/connd/connd.networks 'name=686f6d65 '
call 10.0.1.2

echo "# scans"
iw event >/run/events &
events=$!
check "iw event reports a scan" within 120 scan
# Tried repeatedly, because the watchdog wakes connd every 30 s.
check "D7 three scans → connd is not woken" within 120 asleep scans
check "three scans were triggered → iw event has reported them" scanned 4
kill $events

echo "# roam"
for target in $(bssid home wlan1) $(bssid home wlan2); do station "bssid=$target" >/dev/null || break; done
supplicant scan >/dev/null
check "a scan → the second access point of home is found" within 60 bash -c "wpa_cli -i wlan0 bss $target | grep ssid=home"
: >/run/watch
check "wpa_cli roam to the second access point → OK" within 60 bash -c "wpa_cli -i wlan0 roam $target | grep OK"
check "the station roams → wpa_supplicant reports the second access point as completed" within 60 station "bssid=$target" wpa_state=COMPLETED
check "T2 the station has roamed → connctl watch prints a transition to wifi" within 60 told /run/watch '"to": ?"wifi"'
check "the station has roamed → connd reports wifi" connctl wait wifi --timeout 2m
check "I10 the station has roamed within the grace period → the connection still echoes" echoes
check "I10 the station has roamed within the grace period → connd does not destroy the connection" untold /run/guard destroy
check "I10 the station has roamed within the grace period → no watcher receives a destroy" untold /run/watch '"severity": ?"destroy"'
check "I10 the station has roamed within the grace period → connctl guard keeps running" kill -0 $guard
check "I4 the station has roamed to an access point of the same network → its constraint still applies" connctl is constrained

echo "# another network with the same addresses"
supplicant select_network 1 >/dev/null
check "the station selects the network cafe → it joins" within 120 station ssid=cafe wpa_state=COMPLETED
# No host answers for the router there: only the SSID differs.
check "I4 the SSID changes, before any packet is sent → connd destroys the connection" within 60 told /run/guard '"reason": ?"networkChanged".*"destroy"'
check "cafe's access point announces a metered network → connctl links lists wlan0 as metered" within 60 listed '"ssid": "cafe"' '"security": ["open"]' '"metered": true' '"expensive": true'
ip -n cafe address add 10.0.1.1/24 dev wlan3
check "the kernel kept address and route on cafe → connd reports wifi" connctl wait wifi --timeout 2m
check "I4 connd has destroyed the connection → connctl guard exits" within 60 over
exec {socket}>&-
check "I4 the SSID changes, with the same addresses → the constraint of home does not apply" connctl is not-constrained
check "the SSID changes → connctl networks lists cafe without an override" networks '"name": "cafe"' '"constrained": null'

echo "# another network with other addresses"
call 10.0.1.2
lease 10.0.2
check "I1 the address is replaced → connd destroys the connection" within 60 told /run/guard '"reason": ?"sourceAddressLost".*"destroy"'
check "I1 connd has destroyed the connection → connctl guard exits" within 60 over
exec {socket}>&-
check "wlan0 has an address and a route on cafe → connd reports wifi" connctl wait wifi --timeout 2m
check "cafe's access point announces a metered network → connd reports metered" connctl wait expensive --timeout 1m
call 10.0.2.2

echo "# the access point vanishes"
check "reload with the default grace period → succeeds" configure </dev/null
systemctl kill --signal=KILL wlan3.service
ip -n cafe link set wlan3 down
check "T1 the access point vanishes → connd reports none" connctl wait none --timeout 2m
check "I10 the grace period has ended → connd destroys the connection" within 60 told /run/guard '"reason": ?"interfaceLost".*"destroy"'
check "I10 connd has destroyed the connection → connctl guard exits" within 60 over
check "I10 the access point vanishes → connd first advises, then destroys" is '"advise" "destroy"' bash -c "grep -oE '\"(advise|drain|destroy)\"' /run/guard | xargs -n 1 printf '\"%s\" ' | sed 's/ $//'"
exec {socket}>&-

echo "# rfkill"
supplicant select_network 0 >/dev/null
check "the station selects the network home → it joins" within 120 station ssid=home wpa_state=COMPLETED
lease 10.0.1
check "the station is back on home → connd reports wifi" connctl wait wifi --timeout 2m
check "the station is back on home → connd reports not metered" connctl wait not-expensive --timeout 1m
call 10.0.1.2
rfkill=$(echo /sys/class/net/wlan0/phy80211/rfkill*/soft)
echo 1 >"$rfkill"
check "K3 rfkill blocks the radio → connd reports none" connctl wait none --timeout 2m
check "I2 rfkill blocks the radio → connd destroys the connection" within 60 told /run/guard '"reason": ?"interfaceLost".*"destroy"'
check "I2 connd has destroyed the connection → connctl guard exits" within 60 over
exec {socket}>&-
echo 0 >"$rfkill"
ip link set wlan0 up
check "rfkill unblocks the radio → the station joins home again" within 120 station ssid=home wpa_state=COMPLETED
lease 10.0.1
check "the station is back on home after rfkill → connd reports wifi" connctl wait wifi --timeout 2m

echo "# two networks with the same SSID"
check "reload with a Wi-Fi grace period of 2 min for the twin network → succeeds" configure <<<'grace: {wifi: 2m}'
call 10.0.1.2
printf '%s\n' interface=wlan3 channel=11 ${home/bridge=br0} >/run/twin.conf
ip -n cafe link set wlan3 up
access_point cafe twin
systemctl stop wlan1.service wlan2.service
check "home's access points stop → the station joins another network with the SSID home" within 120 station ssid=home wpa_state=COMPLETED "bssid=$(bssid cafe wlan3)"
check "the station has joined the twin of home → connd reports wifi" connctl wait wifi --timeout 2m
check "I4 the station has joined the twin of home → home's constraint applies" connctl wait constrained --timeout 1m
echo "is anybody there?" >&$socket
check "I4 another gateway answers behind the same SSID → connd destroys the connection" within 120 told /run/guard '"reason": ?"networkChanged".*"destroy"'
check "I4 connd has destroyed the connection → connctl guard exits" within 60 over
exec {socket}>&-
check "restarting connd on the twin of home → succeeds" systemctl restart connd.service
check "I4 connd has restarted → the constraint of home still applies" connctl wait constrained --timeout 1m
check "connctl forget home → accepted" connctl forget home
check "home is forgotten → connd reports not constrained" connctl is not-constrained

echo "# a hidden SSID of 32 bytes with control characters"
odd=ff1b5c680ae280ae$(printf '2d%.0s' {1..24})
systemctl stop twin.service
printf '%s\n' interface=wlan3 channel=11 ssid2=$odd ignore_broadcast_ssid=1 $common >/run/odd.conf
access_point cafe odd
network=$(supplicant add_network)
for setting in "ssid $odd" "key_mgmt NONE" "scan_ssid 1"; do supplicant set_network "$network" $setting >/dev/null; done
supplicant select_network "$network" >/dev/null
check "the station selects a hidden network whose SSID is 32 bytes of unusual characters → it joins" within 120 station wpa_state=COMPLETED "bssid=$(bssid cafe wlan3)" key_mgmt=NONE
check "an SSID with control characters → connctl links --json escapes them" within 60 listed '"ssid": "\\xff\u001b\\\\h\n\u202e------------------------"' '"security": ["open"]'
check "an SSID with control characters → connctl links prints none of them" untold <(connctl links) $'\e|\xe2\x80\xae'
check "an SSID with control characters → connctl links shows its printable part" told <(connctl links) '^wlan0 .*-----'
check "neither journal nor history contains an SSID" untold <(journalctl --unit=connd --output=cat _COMM=connd; connctl history --json) '(home|cafe|-----)'
echo "# the drivers are unloaded and loaded again"
systemctl stop station.service odd.service
check "all users of mac80211_hwsim stop → the module unloads" within 60 modprobe -r mac80211_hwsim
check "mac80211_hwsim is unloaded → mac80211 and cfg80211 unload" within 60 modprobe -r mac80211 cfg80211
check "the modules are unloaded → sysfs lists neither cfg80211 nor mac80211" untold <(busybox ls /sys/module) '^(cfg80211|mac80211)$'
check "the Wi-Fi modules are unloaded → connd reports none" connctl is none
check "the Wi-Fi modules are unloaded → connctl links lists no Wi-Fi link" untold <(connctl links --json) '"medium": ?"wifi"'
check "loading mac80211_hwsim again → succeeds" modprobe mac80211_hwsim radios=2
check "mac80211_hwsim is loaded again → wlan1 exists" within 30 test -e /sys/class/net/wlan1
check "K5 mac80211_hwsim is loaded again → connctl links lists wlan0 as a Wi-Fi station" within 60 listed '"medium": "wifi"' '"role": "station", "ssid": null'
ip netns add again
iw phy "$(phy wlan1)" set netns name again
printf '%s\n' interface=wlan1 channel=1 ssid=again $common >/run/again.conf
access_point again again
ip link set wlan0 up
check "a new access point starts → the station joins the network again" within 60 joins again
check "I4 the station has joined after the reload of nl80211 → connctl links lists the SSID" within 60 listed '"ssid": "again"' '"security": ["open"]'
lease 10.0.7
check "K3 the station has an address after the reload of nl80211 → connd reports wifi" connctl wait wifi --timeout 2m

check "connd has logged no warnings" is '' journalctl --quiet --unit=connd --priority=warning --output=cat _COMM=connd
finish connd.service station.service twin.service odd.service again.service wlan1.service wlan2.service wlan3.service
