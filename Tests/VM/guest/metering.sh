#!/bin/bash
# The metering of a link by other sources.
# systemd-networkd has a lease from a metered phone. NetworkManager has its guess, and its
# connection's settings. The phone is dnsmasq in a network namespace.
cd "$(dirname "$(readlink -f "$0")")" || exit
. ./tap.sh

# phone NAME NET [OPTION...]: a link NAME to a DHCP server with 192.0.NET.1 and dnsmasq's OPTIONs,
# which replaces an earlier one.
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
# cost: a path's cost, and its source.
cost() { connctl explain | sed -n 's/^ *metered *//p'; }
# told: whether each reported path change since the watch began made it expensive, and its cause.
told() {
    python3 -c '
import json, sys
for event in map(json.loads, sys.stdin):
    if event["event"] == "path": print(str(event["status"]["expensive"]).lower(), event["cause"]["change"])
' </run/events
}

check "connd runs since the boot" within 120 is active systemctl is-active connd.service
echo 'links: [{match: "up*", medium: wired}]' >/etc/connd/connd.yaml
check "reload" systemctl reload connd.service
check "the machine is offline" connctl is none

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
check "systemd-networkd starts" systemctl start systemd-networkd.service
check "online by its lease" connctl wait online --timeout 2m
check "which the phone has sold" within 30 connctl is expensive
check "the lease says so" is 'yes: the DHCP server says so.*' cost
check "and to programs" is '.*\{"metering": "yes", "source": "dhcp"\}.*' connctl explain --json
cat >/run/systemd/system/saver.service <<'U'
[Service]
Type=oneshot
ExecCondition=connctl is not-expensive
ExecStart=touch /run/saver
U
check "a unit that is to save data is skipped, which is no failure" systemctl start saver
check "by ExecCondition=" exits 1 test -e /run/saver
phone up1 2
check "the phone is in its owner's Wi-Fi now" networkctl renew up1
check "which costs nothing" within 30 connctl is not-expensive
check "nobody says more" is 'guess no: .*' cost
check "and the unit is not skipped" systemctl start saver
check "for its condition holds" test -e /run/saver
phone up1 2 $metered
check "and again it has no Wi-Fi" networkctl renew up1
check "it costs money" within 30 connctl is expensive
systemctl --quiet stop systemd-networkd.socket systemd-networkd.service
ip link del up1
check "offline" within 30 connctl is none

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
check "NetworkManager starts" systemctl start NetworkManager.service
check "a connection of it" nmcli connection add type ethernet con-name sold ifname up2 ipv6.method disabled
check "is up" within 60 nmcli --wait 30 connection up sold
check "online" connctl wait online --timeout 1m
check "NetworkManager guesses by the lease" within 30 is 'guess yes: NetworkManager says so.*' cost
connctl watch --json >/run/events &
watcher=$!
check "somebody follows that" within 30 grep -q snapshot /run/events
metering() { nmcli connection modify sold connection.metered "$1" && nmcli device reapply up2; }
check "the user says that it costs money" metering yes
check "so it does" within 30 is 'yes: NetworkManager says so.*' cost
check "the user says that it does not" metering no
check "so it does not" within 30 connctl is not-expensive
check "says NetworkManager" is 'no: NetworkManager says so.*' cost
check "the user says nothing" metering unknown
check "and NetworkManager guesses again" within 30 is 'guess yes: NetworkManager says so.*' cost
check "what changed was told, with its cause" is $'false meteringChanged\ntrue meteringChanged' told
check "NetworkManager is started anew" systemctl restart NetworkManager.service
check "and guesses the same" within 60 is '4|yes \(guessed\)' nmcli --get-values GENERAL.METERED device show up2
check "connd says so" is 'guess yes: NetworkManager says so.*' cost
check "D1 and nothing else was told meanwhile" is $'false meteringChanged\ntrue meteringChanged' told
check "NetworkManager ends" systemctl stop NetworkManager.service
check "what it has said holds" is 'guess yes: NetworkManager says so.*' cost
check "connd's own user holds against it" connctl expensive up2 off
check "so it is free" connctl is not-expensive
check "until the user says nothing more" connctl forget up2
check "and it is not" connctl is expensive
kill $watcher
check "nobody complains" is '' journalctl --quiet --unit=connd --priority=warning --output=cat
finish connd.service systemd-networkd.service NetworkManager.service
