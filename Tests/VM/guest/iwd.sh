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
check "connd runs since the boot" within 120 is active systemctl is-active connd.service
check "reload" configure <<<'grace: {wifi: 2m}'
beyond home:wlan1 home:wlan2 cafe:wlan3
# To iwd, equally strong access points are alike, but one that reports a high load (BSS load: 200 of
# 255) is worse.
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
# Software radios are received with -30 dBm, or, at the lowest power, with -50: there iwd shall look
# for a better one.
mkdir -p /etc/iwd /var/lib/iwd
printf '%s\n' '[General]' EnableNetworkConfiguration=true RoamThreshold=-40 '[Network]' EnableIPv6=false NameResolvingService=none \
    >/etc/iwd/main.conf
static='[IPv4]\nAddress=10.0.1.2\nNetmask=255.255.255.0\nGateway=10.0.1.1\n'
printf "[Security]\nPassphrase=correct-horse\n$static" >/var/lib/iwd/home.psk
printf "[Settings]\nAutoConnect=false\n[Security]\nPassphrase=correct-horse\n$static" >/var/lib/iwd/cafe.psk
check "iwd runs" systemctl start iwd.service
check "it joins the network that it knows" within 120 joined home
check "K3 the network is there" connctl wait wifi --timeout 2m
check "K5 the listing names it" within 60 listed '"role": "station", "ssid": "home"' '"security": ["personal"]' '"signal": -'
check "and its access point" listed "\"bssid\": \"$(access_point_now)\""
call 10.0.1.2

echo "# roam"
: >/run/watch
access_point home wlan2
check "the access point gets weak" ip netns exec home iw dev wlan1 set txpower fixed 0
check "iwd roams to the other one of its own accord" within 120 joined home "$(bssid home wlan2)"
check "the network is there" connctl wait wifi --timeout 2m
check "I10 the connection goes on" echoes
check "I10 and connd says so: nothing is destroyed" untold /run/guard destroy
check "I10 for nobody" untold /run/watch '"severity": ?"destroy"'
check "I10 the guard goes on" kill -0 $guard
check "the listing names the other access point" within 60 listed "\"bssid\": \"$(bssid home wlan2)\""

echo "# another network with the same addresses"
check "iwd joins the other network" within 120 iwctl --dont-ask station wlan0 connect cafe
check "it is there" within 60 joined cafe
check "I4 another network: the connection is destroyed" within 60 told /run/guard '"reason": ?"(networkChanged|sourceAddressLost)".*"destroy"'
check "I4 and carries nothing" dead
check "I4 the guard is over" within 60 over
exec {socket}>&-
check "the new network serves" connctl wait wifi --timeout 2m
check "and is listed" within 60 listed '"ssid": "cafe"' '"security": ["personal"]'
call 10.0.1.2

echo "# the access point vanishes"
check "the default grace" configure </dev/null
systemctl kill --signal=KILL wlan3.service
ip -n cafe link set wlan3 down
check "T1 the loss is told" connctl wait none --timeout 2m
check "I10 the connection is destroyed" within 60 told /run/guard '"reason": ?"(interfaceLost|sourceAddressLost)".*"destroy"'
check "I10 and carries nothing" dead
check "I10 the guard is over" within 60 over
exec {socket}>&-

echo "# home again"
check "iwd joins it by itself" within 120 joined home
check "the network is there" connctl wait wifi --timeout 2m
call 10.0.1.2
check "iwd ends, and leaves no address behind" systemctl stop iwd.service
check "I2 the connection is destroyed" within 60 told /run/guard '"reason": ?"(interfaceLost|sourceAddressLost)".*"destroy"'
check "I2 and carries nothing" dead
check "I2 the guard is over" within 60 over
exec {socket}>&-

check "connd complained of nothing" is '' journalctl --quiet --unit=connd --priority=warning --output=cat _COMM=connd
finish connd.service iwd.service wlan1.service wlan2.service wlan3.service
