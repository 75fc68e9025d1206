#!/bin/bash
# program: wireless
# clock: instructions
# How long connd takes to report another Wi-Fi network, beside a floor in C
# (Tests/Bench/wireless). These are figures, not a test.
cd "$(dirname "$(readlink -f "$0")")" || exit
. ./tap.sh
. ./connection.sh
. ./radios.sh

check "boot → connd.service is active" within 120 is active systemctl is-active connd.service
check "reload with a Wi-Fi grace period of 2 min → succeeds" configure <<<'grace: {wifi: 2m}'
beyond home:wlan1 cafe:wlan2
printf '%s\n' interface=wlan1 channel=1 ssid=home $common >/run/wlan1.conf
printf '%s\n' interface=wlan2 channel=6 ssid=cafe $common >/run/wlan2.conf
access_point home wlan1
access_point cafe wlan2
first=home:2412:$(bssid home wlan1) second=cafe:2437:$(bssid cafe wlan2)
ip link set wlan0 up
lease 10.0.1
check "a scan → both networks are found" within 60 bash -c '[ "$(iw dev wlan0 scan | grep -c "SSID: \(home\|cafe\)")" = 2 ]'
check "iw connects wlan0 to the network home → succeeds" iw dev wlan0 connect home 2412 "$(bssid home wlan1)"
check "K3 wlan0 has joined home → connd reports wifi" connctl wait wifi --timeout 2m
# connd and the benchmark run before all other processes.
chrt --all-tasks --fifo --pid 10 "$(pidof connd)"
chrt --fifo 20 ./wireless "${ROUNDS:-60}" /run/connd/connd.sock wlan0 "$second" "$first" || failures=1
finish connd.service wlan1.service wlan2.service
