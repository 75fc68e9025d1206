#!/bin/bash
# Metering that connd learns from systemd-networkd and NetworkManager.
# systemd-networkd has a lease from a metered phone. NetworkManager guesses from such a lease, or
# obeys the connection's settings. The phone is dnsmasq in a network namespace.
cd "$(dirname "$(readlink -f "$0")")" || exit
. ./tap.sh

# phone NAME NET [OPTION...]: creates the link NAME to a DHCP server, 192.0.NET.1, with dnsmasq's
# OPTIONs. If the link exists, replaces the server.
phone() {
    local name=$1 net=$2 pids=/run/$1.pid
    if [ -e "$pids" ]; then
        kill "$(<"$pids")"
        within 10 exits 1 test -e "/proc/$(<"$pids")" >/dev/null
    else
        ip netns add "$name"
        ip -n "$name" link set lo up
        ip link add "$name" type veth peer name far netns "$name"
        ip -n "$name" address add "192.0.$net.1/24" dev far
        ip -n "$name" link set far up
    fi
    ip netns exec "$name" dnsmasq --conf-file=/dev/null --port=0 --interface=far --bind-interfaces --dhcp-authoritative \
        --dhcp-range="192.0.$net.10,192.0.$net.20,1h" --dhcp-leasefile="/run/$name.leases" --pid-file="$pids" "${@:3}"
}
metered=--dhcp-option-force=43,ANDROID_METERED
# cost: prints whether the default path is metered, and the source of that.
cost() { connctl explain | sed -n 's/^ *metered *//p'; }
# told: prints, for each path event of the watch, whether the path is metered, and the cause.
told() {
    python3 -c '
import json, sys
for event in map(json.loads, sys.stdin):
    if event["event"] == "path": print(str(event["status"]["expensive"]).lower(), event["cause"]["change"])
' </run/events
}

check "boot → connd.service is active" within 120 is active systemctl is-active connd.service
echo 'links: [{match: "up*", medium: wired}]' >/etc/connd/connd.yaml
check "reload with links up* as wired → succeeds" systemctl reload connd.service
check "no default route → connd reports none" connctl is none

echo "# systemd-networkd"
cat >/etc/systemd/network/up1.network <<'N'
[Match]
Name=up1
[Network]
DHCP=ipv4
LinkLocalAddressing=no
IPv6AcceptRA=no
N
phone up1 2 $metered
check "starting systemd-networkd → succeeds" systemctl start systemd-networkd.service
check "systemd-networkd has a DHCP lease → connd reports online" connctl wait online --timeout 2m
check "the DHCP lease says ANDROID_METERED → connd reports metered" within 30 connctl is expensive
check "the DHCP lease says ANDROID_METERED → connctl explain names the DHCP server" is 'yes: the DHCP server says so.*' cost
check "the DHCP lease says ANDROID_METERED → connctl explain --json has the source dhcp" is '.*\{"metering": "yes", "source": "dhcp"\}.*' connctl explain --json
cat >/run/systemd/system/saver.service <<'U'
[Service]
Type=oneshot
ExecCondition=connctl is not-expensive
ExecStart=touch /run/saver
U
check "ExecCondition=connctl is not-expensive on a metered network → starting the unit succeeds" systemctl start saver
check "ExecCondition=connctl is not-expensive on a metered network → the command did not run" exits 1 test -e /run/saver
phone up1 2
check "renewing the lease of a phone that has moved to Wi-Fi → succeeds" networkctl renew up1
check "the renewed lease is not metered → connd reports not metered" within 30 connctl is not-expensive
check "the renewed lease is not metered → connctl explain shows a guess of no" is 'probably not: .*' cost
check "ExecCondition=connctl is not-expensive, unmetered → starting the unit succeeds" systemctl start saver
check "ExecCondition=connctl is not-expensive, unmetered → the command has run" test -e /run/saver
phone up1 2 $metered
check "renewing the lease of a phone that has left Wi-Fi → succeeds" networkctl renew up1
check "the renewed lease is metered again → connd reports metered" within 30 connctl is expensive
systemctl --quiet stop systemd-networkd.socket systemd-networkd.service
ip link del up1
check "up1 is deleted → connd reports none" within 30 connctl is none

echo "# NetworkManager"
cat >/etc/NetworkManager/NetworkManager.conf <<'N'
[main]
plugins=keyfile
no-auto-default=*
[keyfile]
unmanaged-devices=*,except:interface-name:up2
[device-up2]
match-device=interface-name:up2
managed=1
N
phone up2 3 $metered
check "starting NetworkManager → succeeds" systemctl start NetworkManager.service
check "NetworkManager adds a connection profile for up2" nmcli connection add type ethernet con-name sold ifname up2 ipv6.method disabled
check "NetworkManager activates the connection profile" within 60 nmcli --wait 30 connection up sold
check "NetworkManager has activated the profile → connd reports online" connctl wait online --timeout 1m
check "NetworkManager guesses metered from the lease → connctl explain shows that guess" within 30 is 'probably: NetworkManager says so.*' cost
connctl watch --json >/run/events &
watcher=$!
check "connctl watch has received a snapshot" within 30 grep -q snapshot /run/events
metering() { nmcli connection modify sold connection.metered "$1" && nmcli device reapply up2; }
check "the user sets connection.metered to yes → NetworkManager accepts it" metering yes
check "connection.metered is yes → connctl explain shows yes from NetworkManager" within 30 is 'yes: NetworkManager says so.*' cost
check "the user sets connection.metered to no → NetworkManager accepts it" metering no
check "connection.metered is no → connd reports not metered" within 30 connctl is not-expensive
check "connection.metered is no → connctl explain shows no from NetworkManager" is 'no: NetworkManager says so.*' cost
check "the user sets connection.metered to unknown → NetworkManager accepts it" metering unknown
check "connection.metered is unknown → connctl explain shows NetworkManager's guess again" within 30 is 'probably: NetworkManager says so.*' cost
check "metering changed twice → connctl watch printed both changes with their cause" is $'false meteringChanged\ntrue meteringChanged' told
check "restarting NetworkManager → succeeds" systemctl restart NetworkManager.service
check "NetworkManager has restarted → it guesses metered" within 60 is '4|yes \(guessed\)' nmcli --get-values GENERAL.METERED device show up2
check "NetworkManager has restarted → connctl explain shows its guess" is 'probably: NetworkManager says so.*' cost
check "D1 NetworkManager has restarted → connctl watch printed no further change" is $'false meteringChanged\ntrue meteringChanged' told
check "stopping NetworkManager → succeeds" systemctl stop NetworkManager.service
check "NetworkManager has stopped → its last guess still applies" is 'probably: NetworkManager says so.*' cost
check "the user overrides up2 as not metered → accepted" connctl expensive up2 off
check "an override contradicts NetworkManager's guess → connd reports not metered" connctl is not-expensive
check "the user removes the override of up2 → accepted" connctl forget up2
check "the override of up2 is removed → connd reports metered" connctl is expensive
kill $watcher
check "connd has logged no warnings" is '' journalctl --quiet --unit=connd --priority=warning --output=cat
finish connd.service systemd-networkd.service NetworkManager.service
