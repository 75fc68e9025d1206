#!/bin/bash
# Reports of the Wi-Fi driver about a bad link (Q1), with NetworkManager and wpa_supplicant, and
# with iwd. They set the thresholds; the kernel's mac80211 compares and counts.
# wlan0 is the station. In its own namespace, wlan1 is the access point of "home" (10.0.1.0/24).
# medium.py carries the frames: it decides how strong they are, and loses some.
cd "$(dirname "$(readlink -f "$0")")" || exit
. ./tap.sh
. ./connection.sh
. ./radios.sh

# reasons: prints why connd doubts the link.
reasons() {
    local explained
    explained=$(connctl explain $server) || echo "connctl explain failed"
    sed -n 's/^ *quality *//p' <<<"$explained"
}
well='(good)?'
low='moderate: the signal is low on wlan0'
lost='moderate: packets were lost on wlan0'
# heard LEVEL: sets the level at which frames are received, in dBm.
heard() { echo "$1" >/run/medium/signal; }
# reported NUMBER WORDS: whether the kernel has reported this at least NUMBER times.
reported() { [ "$(grep -c "$2" /run/events)" -ge "$1" ] || { cat /run/events; return 1; }; }
# crosses LEVEL: changes the level, and waits for the kernel's next report of a crossing. The kernel
# compares a moving average, and reports again if it moves on by the station's hysteresis of four or
# five. So both levels are close to the threshold.
crosses() {
    local before
    before=$(grep -c 'CQM event: RSSI' /run/events)
    heard "$1"
    within 60 reported $((before + 1)) 'CQM event: RSSI'
}
# wakeups: prints how often connd's monitor has waited so far. The kernel wakes no other thread.
wakeups() {
    local process
    process=$(systemctl show connd.service --property=MainPID --value)
    awk '/^Name:/ { monitor = $2 == "connd-monitor" } monitor && /^voluntary_ctxt_switches/ { print $2 }' "/proc/$process"/task/*/status
}
weak=-72 strong=-64
# crossings: crosses the threshold three times.
crossings() { crosses $weak && crosses $strong && crosses $weak; }

# signal: checks the reports. The station's threshold is -70 dBm.
signal() {
    check "Q1 a good signal → connd has no doubt" is "$well" reasons
    check "Q1 the signal gets weak → the kernel reports it" crosses $weak
    check "Q1 the kernel has reported a weak signal → connd doubts the link within a second" within 2 is "$low" reasons
    check "Q1 the signal gets better → the kernel reports it" crosses $strong
    check "Q1 the kernel has reported a good signal → connd's doubt ends within a second" within 2 is "$well" reasons
    before=$(wakeups)
    check "Q4 the signal crosses the threshold three times → the kernel reports it" crossings
    check "Q4 the signal has crossed the threshold three times → connd has woken up three times" within 2 is $((before + 3)) wakeups
    check "Q4 the signal crossed the threshold three times → connd doubts the link" is "$low" reasons
    check "the signal gets better → the kernel reports it" crosses $strong
    check "Q1 the signal is good → connd's doubt has ended" within 2 is "$well" reasons
}

check "boot → connd.service is active" within 120 is active systemctl is-active connd.service
# The watchdog would wake connd every 30 s.
mkdir -p /run/systemd/system/connd.service.d
printf '%s\n' '[Service]' WatchdogSec=0 >/run/systemd/system/connd.service.d/watchdog.conf
systemctl daemon-reload
check "restarting connd without the watchdog → succeeds" systemctl restart connd.service
check "reload with a Wi-Fi grace period of 2 min → succeeds" configure <<<'grace: {wifi: 2m}'
beyond home:wlan1
mkdir /run/medium
heard -64
systemd-run --quiet --unit=medium --property=StandardOutput=file:/run/medium/log python3 "$PWD/medium.py" /run/medium
check "the medium carries the radios' frames" within 60 grep -q ready /run/medium/log
printf '%s\n' interface=wlan1 channel=1 $home >/run/wlan1.conf
bridged home
access_point home wlan1
serve home
iw event >/run/events &

echo "# NetworkManager and wpa_supplicant"
cat >/etc/NetworkManager/NetworkManager.conf <<'N'
[main]
plugins=keyfile
no-auto-default=*
[keyfile]
unmanaged-devices=*,except:interface-name:wlan0
N
systemctl unmask wpa_supplicant.service
check "enabling wpa_supplicant → succeeds" systemctl enable wpa_supplicant.service
check "starting wpa_supplicant and NetworkManager → succeeds" systemctl start wpa_supplicant.service NetworkManager.service
check "NetworkManager has started → wlan0 is available" within 60 is ".*disconnected.*" nmcli --get-values GENERAL.STATE device show wlan0
check "NetworkManager adds a connection profile for wlan0" nmcli connection add type wifi con-name home ifname wlan0 ssid home \
    wifi-sec.key-mgmt wpa-psk wifi-sec.psk correct-horse ipv4.method manual ipv4.addresses 10.0.1.2/24 ipv4.gateway 10.0.1.1 ipv6.method disabled
check "NetworkManager activates the profile" within 180 nmcli --wait 60 connection up home
check "wlan0 has joined home → connd reports wifi" connctl wait wifi --timeout 2m
signal

echo "# lost frames"
call 10.0.1.2
echo data >/run/medium/loses
while sleep 0.02; do echo x >/dev/udp/$server/9; done 2>/dev/null &
sender=$!
check "Q1 data frames are lost → the kernel reports it" within 60 reported 1 'didn.t ACK'
check "Q1 the kernel has reported lost frames → connd doubts the link within a second" within 2 is "$lost" reasons
check "Q1 frames are lost → the link is still up, and connd reports wifi" connctl is wifi
echo >/run/medium/loses
kill $sender
check "Q1 no frames were lost for ten seconds → connd's doubt has ended" within 30 is "$well" reasons
check "I0 frames were lost → connd did not destroy the connection" untold /run/guard destroy
exec {socket}>&-
kill $guard
check "stopping NetworkManager and wpa_supplicant → succeeds" systemctl stop NetworkManager.service wpa_supplicant.service

echo "# iwd"
mkdir -p /etc/iwd /var/lib/iwd
printf '%s\n' '[General]' EnableNetworkConfiguration=true '[Network]' EnableIPv6=false NameResolvingService=none >/etc/iwd/main.conf
printf '[Security]\nPassphrase=correct-horse\n[IPv4]\nAddress=10.0.1.2\nNetmask=255.255.255.0\nGateway=10.0.1.1\n' >/var/lib/iwd/home.psk
check "starting iwd → succeeds" systemctl start iwd.service
check "iwd has started → it joins the known network home" within 120 bash -c 'iw dev wlan0 link | grep "SSID: home"'
check "iwd has joined home → connd reports wifi" connctl wait wifi --timeout 2m
signal

check "connd has logged no warnings" is '' journalctl --quiet --unit=connd --priority=warning --output=cat _COMM=connd
finish connd.service NetworkManager.service wpa_supplicant.service iwd.service medium.service wlan1.service
