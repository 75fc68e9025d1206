#!/bin/bash
# connd and Wi-Fi with iwd, which also configures the addresses.
# wpa_supplicant leaves addresses to others; iwd removes them with the network. In their own
# namespaces, wlan1 and wlan2 are two access points of the network "home" (10.0.1.0/24), and wlan3
# is that of "cafe", which uses the same subnet. Behind both is a server. connd's reports are
# compared with a connection that carries bytes.
cd "$(dirname "$(readlink -f "$0")")" || exit
. ./tap.sh
. ./connection.sh
. ./radios.sh

# joined SSID [BSSID]: whether the station is in this network, and on this access point.
joined() {
    local link
    link=$(iw dev wlan0 link)
    [[ $link == *"SSID: $1"* && $link == *"Connected to ${2:-}"* ]] && iwctl station wlan0 show | grep -q 'State  *connected' ||
        { echo "$link"; return 1; }
}
access_point_now() { iw dev wlan0 link | sed -n 's/^Connected to \([^ ]*\).*/\1/p'; }

echo "# radios"
check "boot → connd.service is active" within 120 is active systemctl is-active connd.service
check "reload with a Wi-Fi grace period of 2 min → succeeds" configure <<<'grace: {wifi: 2m}'
beyond home:wlan1 home:wlan2 cafe:wlan3
# Both access points of home are equally strong. iwd prefers the second one, because the first one
# reports a high load (BSS load: 200 of 255).
printf '%s\n' interface=wlan1 channel=1 vendor_elements=0b050c00c80000 $home >/run/wlan1.conf
printf '%s\n' interface=wlan2 channel=6 $home >/run/wlan2.conf
printf '%s\n' interface=wlan3 channel=11 ${home/ssid=home bridge=br0/ssid=cafe} >/run/wlan3.conf
bridged home
ip -n cafe address add 10.0.1.1/24 dev wlan3
access_point home wlan1
access_point cafe wlan3
for network in home cafe; do serve $network; done
connctl watch --json >>/run/watch 2>&1 &

echo "# association"
# Software radios are received at -30 dBm, or at -50 dBm with the lowest transmit power. With this
# threshold, the latter makes iwd roam.
mkdir -p /etc/iwd /var/lib/iwd
printf '%s\n' '[General]' EnableNetworkConfiguration=true RoamThreshold=-40 '[Network]' EnableIPv6=false NameResolvingService=none \
    >/etc/iwd/main.conf
static='[IPv4]\nAddress=10.0.1.2\nNetmask=255.255.255.0\nGateway=10.0.1.1\n'
printf "[Security]\nPassphrase=correct-horse\n$static" >/var/lib/iwd/home.psk
printf "[Settings]\nAutoConnect=false\n[Security]\nPassphrase=correct-horse\n$static" >/var/lib/iwd/cafe.psk
check "starting iwd → succeeds" systemctl start iwd.service
check "iwd has started → it joins the known network home" within 120 joined home
check "K3 iwd has joined home → connd reports wifi" connctl wait wifi --timeout 2m
check "K5 iwd has joined home → connctl links lists SSID, security and signal" within 60 listed '"role": "station", "ssid": "home"' '"security": ["personal"]' '"signal": -'
check "iwd has joined home → connctl links lists the access point" listed "\"bssid\": \"$(access_point_now)\""
call 10.0.1.2

echo "# roam"
: >/run/watch
access_point home wlan2
check "lowering the transmit power of the access point → succeeds" ip netns exec home iw dev wlan1 set txpower fixed 0
check "the access point is weak → iwd roams to the second one" within 120 joined home "$(bssid home wlan2)"
check "iwd has roamed → connd reports wifi" connctl wait wifi --timeout 2m
check "I10 iwd has roamed within the grace period → the connection still echoes" echoes
check "I10 iwd has roamed within the grace period → connd does not destroy the connection" untold /run/guard destroy
check "I10 iwd has roamed within the grace period → no watcher receives a destroy" untold /run/watch '"severity": ?"destroy"'
check "I10 iwd has roamed within the grace period → connctl guard keeps running" kill -0 $guard
check "iwd has roamed → connctl links lists the second access point" within 60 listed "\"bssid\": \"$(bssid home wlan2)\""

echo "# another network with the same addresses"
check "iwctl connects to the network cafe → succeeds" within 120 iwctl --dont-ask station wlan0 connect cafe
check "iwctl has connected to cafe → the station has joined" within 60 joined cafe
check "I4 iwd changes the network → connd destroys the connection" within 60 told /run/guard '"reason": ?"(networkChanged|sourceAddressLost)".*"destroy"'
check "I4 iwd changes the network → the connection carries nothing" dead
check "I4 connd has destroyed the connection → connctl guard exits" within 60 over
exec {socket}>&-
check "iwd has joined cafe → connd reports wifi" connctl wait wifi --timeout 2m
check "iwd has joined cafe → connctl links lists SSID and security" within 60 listed '"ssid": "cafe"' '"security": ["personal"]'
call 10.0.1.2

echo "# the access point vanishes"
check "reload with the default grace period → succeeds" configure </dev/null
systemctl kill --signal=KILL wlan3.service
ip -n cafe link set wlan3 down
check "T1 the access point vanishes → connd reports none" connctl wait none --timeout 2m
check "I10 the access point vanishes → connd destroys the connection" within 60 told /run/guard '"reason": ?"(interfaceLost|sourceAddressLost)".*"destroy"'
check "I10 the access point vanishes → the connection carries nothing" dead
check "I10 connd has destroyed the connection → connctl guard exits" within 60 over
exec {socket}>&-

echo "# home again"
check "the network cafe has vanished → iwd joins home" within 120 joined home
check "iwd has joined home again → connd reports wifi" connctl wait wifi --timeout 2m
call 10.0.1.2
check "stopping iwd, which removes its address → succeeds" systemctl stop iwd.service
check "I2 iwd has stopped → connd destroys the connection" within 60 told /run/guard '"reason": ?"(interfaceLost|sourceAddressLost)".*"destroy"'
check "I2 iwd has stopped → the connection carries nothing" dead
check "I2 connd has destroyed the connection → connctl guard exits" within 60 over
exec {socket}>&-

check "connd has logged no warnings" is '' journalctl --quiet --unit=connd --priority=warning --output=cat _COMM=connd
finish connd.service iwd.service wlan1.service wlan2.service wlan3.service
