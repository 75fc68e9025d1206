#!/bin/bash
# program: wireless
# clock: instructions
# How long connd takes to report another Wi-Fi network, beside a floor in C
# (Tests/Bench/wireless). These are figures, not a test.
cd "$(dirname "$(readlink -f "$0")")" || exit
. ./tap.sh
. ./connection.sh
. ./radios.sh

check "connd runs since the boot" within 120 is active systemctl is-active connd.service
check "reload" configure <<<'grace: {wifi: 2m}'
beyond home:wlan1 cafe:wlan2
printf '%s\n' interface=wlan1 channel=1 ssid=home $common >/run/wlan1.conf
printf '%s\n' interface=wlan2 channel=6 ssid=cafe $common >/run/wlan2.conf
access_point home wlan1
access_point cafe wlan2
first=home:2412:$(bssid home wlan1) second=cafe:2437:$(bssid cafe wlan2)
ip link set wlan0 up
lease 10.0.1
check "both are heard" within 60 bash -c '[ "$(iw dev wlan0 scan | grep -c "SSID: \(home\|cafe\)")" = 2 ]'
check "the station joins one" iw dev wlan0 connect home 2412 "$(bssid home wlan1)"
check "K3 the network is there" connctl wait wifi --timeout 2m
# All other work has to wait.
chrt --all-tasks --fifo --pid 10 "$(pidof connd)"
chrt --fifo 20 ./wireless "${ROUNDS:-60}" /run/connd/connd.sock wlan0 "$second" "$first" || failures=1
finish connd.service wlan1.service wlan2.service
