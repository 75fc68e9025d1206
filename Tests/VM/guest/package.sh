#!/bin/bash
# install: package
# connd as a Debian package: installed, upgraded under subscribers, removed, purged, and installed
# again. Also the units that hold network-online.target up, beside systemd-networkd. Expects two
# versions of the package in this directory.
cd "$(dirname "$(readlink -f "$0")")" || exit
. ./tap.sh
export DEBIAN_FRONTEND=noninteractive

property() { systemctl show "$1" --property="$2" --value; }
apt() { apt-get --quiet --quiet --yes "$@"; }
mapfile -t packages < <(printf '%s\n' "$PWD"/connd_*.deb | sort --version-sort)
old=${packages[0]} new=${packages[-1]}
nobody=(setpriv --reuid=4321 --regid=4321 --clear-groups)

echo "# install"
check "apt installs it" apt install "$old"
check "the socket listens" is active systemctl is-active connd.socket
check "the service runs" is active systemctl is-active connd.service
check "both are enabled" is $'enabled\nenabled' systemctl is-enabled connd.socket connd.service
check "what waits for the network is not" is disabled systemctl is-enabled connd-wait-online.service
check "a user without rights is answered" "${nobody[@]}" connctl status
check "and needs no command for it" "${nobody[@]}" connctl
check "nothing is left to configure" connd --check-config
check "the sandbox holds" systemd-analyze security --threshold=12 connd.service
check "nobody complains" is '' journalctl --quiet --unit=connd --priority=warning --output=cat

echo "# a user's own connd"
useradd --uid 4322 --create-home owner
install -d /run/user && install -d -m 700 -o owner -g owner /run/user/4322
systemd-run --quiet --unit=own --uid=owner --property=Delegate=yes --setenv=XDG_RUNTIME_DIR=/run/user/4322 /lib/systemd/systemd --user
own=(setpriv --reuid=4322 --regid=4322 --clear-groups env HOME=/home/owner XDG_RUNTIME_DIR=/run/user/4322)
check "it starts by the unit that is there for it" within 60 "${own[@]}" systemctl --user start connd.service
check "and answers on its own socket" "${own[@]}" connctl --socket /run/user/4322/connd.sock status
check "with the same configuration" "${own[@]}" systemctl --user reload connd.service
check "it ends" "${own[@]}" systemctl --user stop connd.service connd.socket
systemctl stop own.service

echo "# upgrade under a hundred subscribers"
# The uplink of the guarded connection, and of all subscribers' changes.
ip link add up0 type veth peer name far0
ip link set far0 up
ip address add 192.0.2.2/24 dev up0
ip link set up0 up
echo 'links: [{match: "up0", medium: wired}]  # by hand' >>/etc/connd/connd.yaml
check "a hand-edited configuration holds" systemctl reload connd.service
ip route add default via 192.0.2.1
check "the machine is wired" connctl wait wired --timeout 1m
mkdir /run/watchers
for i in {1..100}; do
    connctl watch --json >/run/watchers/$i 2>/run/watchers/$i.log &
    watchers+=($!)
done
subscribed() { connctl stats --json | grep -E "\"subscribers\": ?$1\b"; }
check "a hundred subscribe" within 120 subscribed 100
connctl guard 198.51.100.7:443 --local 192.0.2.2:40000 --json >/run/guarded 2>/run/guarded.log &
guard=$!
check "a connection is guarded" within 60 grep '"path"' /run/guarded
before=$(property connd.service MainPID)
ip route replace default via 192.0.2.1 metric 5
ip route del default via 192.0.2.1 metric 0
check "apt upgrades it" apt install "$new"
check "another connd runs" is "[1-9][0-9]*" property connd.service MainPID
check "which is not the one of before" test "$(property connd.service MainPID)" != "$before"
check "the socket stayed" is 0 bash -c 'journalctl --unit=connd.socket --output=cat | grep -c "Closed\|Stopped"'
check "all hundred are there again" within 120 subscribed 100
ip link set far0 down
check "what changes then" connctl wait none --timeout 1m
told() { grep -lE "\"to\": ?\"none\"" /run/watchers/{1..100} | wc -l; }
check "is told with its link" grep -E "\"interface\": ?\"up0\"" /run/watchers/1
check "is told to all" within 60 is 100 told
check "none missed anything" is 0 bash -c 'cat /run/watchers/{1..100} | grep -c "\"gap\""'
wait $guard
check "the guard ended" test $? = 0
# The events of each, without the first snapshot.
check "all were told the same" is 1 bash -c 'for i in {1..100}; do grep -v snapshot /run/watchers/$i | sha256sum; done | sort -u | wc -l'
check "the upgrade invalidated nothing" is 0 \
    bash -c "sed '/\"to\": *\"none\"/,\$d' /run/watchers/1 | grep -c '\"destroy\"'"
check "nor the guarded connection" is 1 bash -c 'grep -c "\"invalidation\"" /run/guarded'
check "that the cable ended" grep '"interfaceLost"' /run/guarded
check "the hand-edited configuration is there" grep 'by hand' /etc/connd/connd.yaml
kill "${watchers[@]}" 2>/dev/null

echo "# remove, purge, and again"
check "apt removes it" apt remove connd
check "nobody listens" test ! -e /run/connd/connd.sock
check "no unit is left" is '' bash -c 'systemctl list-units --all --no-legend "connd*" | grep -v not-found'
check "no program is left" test ! -e /usr/bin/connd -a ! -e /usr/bin/connctl
check "the configuration is" grep 'by hand' /etc/connd/connd.yaml
check "it can be installed again" apt install "$new"
check "and runs" "${nobody[@]}" connctl status
check "with the configuration of before" grep 'by hand' /etc/connd/connd.yaml
check "apt purges it" apt purge connd
check "nothing is left" is '' find /etc /usr /lib/systemd /var/lib/systemd /run/systemd/system -name '*connd*'

echo "# network-online.target"
check "installed once more" apt install "$new"
check "who wants it enables it" systemctl enable connd-wait-online.service
check "it comes before network-online.target" grep -w network-online.target <(property connd-wait-online.service Before)
mkdir -p /etc/systemd/system/connd-wait-online.service.d
cat >/etc/systemd/system/connd-wait-online.service.d/short.conf <<'D'
[Service]
ExecStart=
ExecStart=connctl wait online --timeout 1s
D
systemctl daemon-reload
check "without a network it fails in time" exits 1 systemctl start connd-wait-online.service
check "and says what is missing" within 60 \
    bash -c 'journalctl --unit=connd-wait-online --output=cat | grep "“online” does not hold after 1s: none: "'
rm -r /etc/systemd/system/connd-wait-online.service.d
systemctl daemon-reload
systemctl reset-failed connd-wait-online.service
# A link that never comes up, and that networkd must configure: its own wait-online waits for that.
ip link add never0 type veth peer name nowhere0
cat >/etc/systemd/network/never0.network <<'N'
[Match]
Name=never0
[Network]
Address=203.0.113.2/24
N
cat >/etc/systemd/network/up0.network <<'N'
[Match]
Name=up0
[Network]
Address=192.0.2.2/24
Gateway=192.0.2.1
N
ip address flush dev up0
systemctl start --no-block network-online.target
check "it waits" within 60 is activating systemctl is-active connd-wait-online.service
ip link set far0 up
check "networkd brings one link up" systemctl start systemd-networkd.service
check "which is enough" within 60 is active systemctl is-active connd-wait-online.service
check "for the target, too" within 60 is active systemctl is-active network-online.target
check "networkd's own still waits for the other" exits 1 /lib/systemd/systemd-networkd-wait-online --timeout=3
check "--via: not by the link that is dead" exits 1 connctl is online --via never0
check "--via: by the one that carries" connctl is online --via up0
check "--family: not by IPv6" exits 1 connctl wait online --family ipv6 --timeout 500ms

finish connd.service connd.socket connd-wait-online.service
