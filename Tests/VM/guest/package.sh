#!/bin/bash
# install: package
# connd as a Debian package: installed, upgraded under subscribers, removed, purged, and installed
# again. Also connd-wait-online.service, which delays network-online.target, beside
# systemd-networkd. Expects two versions of the package in this directory.
cd "$(dirname "$(readlink -f "$0")")" || exit
. ./tap.sh
export DEBIAN_FRONTEND=noninteractive

property() { systemctl show "$1" --property="$2" --value; }
apt() { apt-get --quiet --quiet --yes "$@"; }
mapfile -t packages < <(printf '%s\n' "$PWD"/connd_*.deb | sort --version-sort)
old=${packages[0]} new=${packages[-1]}
nobody=(setpriv --reuid=4321 --regid=4321 --clear-groups)

echo "# install"
check "apt installs the old version of the package" apt install "$old"
check "the package is installed → connd.socket is active" is active systemctl is-active connd.socket
check "the package is installed → connd.service is active" is active systemctl is-active connd.service
check "the package is installed → socket and service are enabled" is $'enabled\nenabled' systemctl is-enabled connd.socket connd.service
check "the package is installed → connd-wait-online.service is disabled" is disabled systemctl is-enabled connd-wait-online.service
check "a user without privileges runs connctl status → connd answers" "${nobody[@]}" connctl status
check "a user without privileges runs connctl without arguments → connd answers" "${nobody[@]}" connctl
check "the installed configuration → connd --check-config accepts it" connd --check-config
check "systemd-analyze security rates connd's exposure at 1.2 or less" systemd-analyze security --threshold=12 connd.service
check "the package is installed → connd has logged no warnings" is '' journalctl --quiet --unit=connd --priority=warning --output=cat

echo "# a user's own connd"
useradd --uid 4322 --create-home owner
install -d /run/user && install -d -m 700 -o owner -g owner /run/user/4322
systemd-run --quiet --unit=own --uid=owner --property=Delegate=yes --setenv=XDG_RUNTIME_DIR=/run/user/4322 /lib/systemd/systemd --user
own=(setpriv --reuid=4322 --regid=4322 --clear-groups env HOME=/home/owner XDG_RUNTIME_DIR=/run/user/4322)
check "a user starts connd.service in the user's own systemd → succeeds" within 60 "${own[@]}" systemctl --user start connd.service
check "the user's connd has started → it answers on the user's socket" "${own[@]}" connctl --socket /run/user/4322/connd.sock status
check "the user's systemd reloads connd.service → succeeds" "${own[@]}" systemctl --user reload connd.service
check "the user's systemd stops connd.service and connd.socket → succeeds" "${own[@]}" systemctl --user stop connd.service connd.socket
systemctl stop own.service

echo "# upgrade under a hundred subscribers"
# The link of the guarded connection. All subscribers receive its changes.
ip link add up0 type veth peer name far0
ip link set far0 up
ip address add 192.0.2.2/24 dev up0
ip link set up0 up
echo 'links: [{match: "up0", medium: wired}]  # by hand' >>/etc/connd/connd.yaml
check "reload with a hand-edited configuration → succeeds" systemctl reload connd.service
ip route add default via 192.0.2.1
check "the default route uses up0 → connd reports wired" connctl wait wired --timeout 1m
mkdir /run/watchers
for i in {1..100}; do
    connctl watch --json >/run/watchers/$i 2>/run/watchers/$i.log &
    watchers+=($!)
done
subscribed() { connctl stats --json | grep -E "\"subscribers\": ?$1\b"; }
check "100 clients watch → connctl stats counts 100 subscribers" within 120 subscribed 100
connctl guard 198.51.100.7:443 --local 192.0.2.2:40000 --json >/run/guarded 2>/run/guarded.log &
guard=$!
check "connctl guard has registered a connection" within 60 grep '"path"' /run/guarded
before=$(property connd.service MainPID)
ip route replace default via 192.0.2.1 metric 5
ip route del default via 192.0.2.1 metric 0
check "apt upgrades the package" apt install "$new"
check "the package was upgraded → connd is running" is "[1-9][0-9]*" property connd.service MainPID
check "the package was upgraded → connd has a new PID" test "$(property connd.service MainPID)" != "$before"
check "the package was upgraded → connd.socket was never closed" is 0 bash -c 'journalctl --unit=connd.socket --output=cat | grep -c "Closed\|Stopped"'
check "the package was upgraded → all 100 subscribers are connected again" within 120 subscribed 100
ip link set far0 down
check "the cable is pulled after the upgrade → connd reports none" connctl wait none --timeout 1m
told() { grep -lE "\"to\": ?\"none\"" /run/watchers/{1..100} | wc -l; }
check "the cable is pulled after the upgrade → a subscriber receives the event with the link up0" grep -E "\"interface\": ?\"up0\"" /run/watchers/1
check "the cable is pulled after the upgrade → all 100 subscribers receive the event" within 60 is 100 told
check "the package was upgraded → no subscriber received a gap event" is 0 bash -c 'cat /run/watchers/{1..100} | grep -c "\"gap\""'
wait $guard
check "the cable is pulled → connctl guard exits with 0" test $? = 0
# Compares all events except the first snapshot.
check "the package was upgraded → all 100 subscribers received identical events" is 1 bash -c 'for i in {1..100}; do grep -v snapshot /run/watchers/$i | sha256sum; done | sort -u | wc -l'
check "the package was upgraded → no subscriber received a destroy before the cable was pulled" is 0 \
    bash -c "sed '/\"to\": *\"none\"/,\$d' /run/watchers/1 | grep -c '\"destroy\"'"
check "upgrade, then pulled cable → the guarded connection gets exactly one invalidation" is 1 bash -c 'grep -c "\"invalidation\"" /run/guarded'
check "the cable is pulled → the guarded connection's invalidation is interfaceLost" grep '"interfaceLost"' /run/guarded
check "the package was upgraded → the hand-edited configuration is unchanged" grep 'by hand' /etc/connd/connd.yaml
kill "${watchers[@]}" 2>/dev/null

echo "# metrics"
scraped() { (exec 3<>/dev/tcp/127.0.0.1/9733 && printf 'GET /metrics HTTP/1.0\r\n\r\n' >&3 && cat <&3) | grep "$1"; }
instances() { systemctl list-units --all --no-legend 'connd-metrics@*'; }
check "the package is installed → connd-metrics.socket is disabled" is disabled systemctl is-enabled connd-metrics.socket
check "the package is installed → nothing listens on port 9733" exits 1 scraped .
check "systemctl enable --now connd-metrics.socket → succeeds" systemctl enable --now connd-metrics.socket
check "a client requests the metrics → they contain the category" within 60 scraped '^connd_category{category="none"} 1'
check "systemd-analyze security rates the exposure of connd-metrics@ at 1.2 or less" systemd-analyze security --threshold=12 connd-metrics@.service
for _ in {1..10}; do scraped . >/dev/null; done
check "10 requests → systemd logs none of them" is 0 bash -c 'journalctl --quiet --output=cat | grep -c "Answer to one request"'
check "10 requests → no instance of the service is left" within 60 is '' instances
for _ in {1..40}; do
    (exec 3<>/dev/tcp/127.0.0.1/9733 && exec cat <&3) >/dev/null 2>&1 &
    silent+=($!)
done
check "40 silent clients → no instance of the service runs" is '' instances
check "40 silent clients → a client gets the metrics" scraped '^connd_category'
kill "${silent[@]}"
check "40 silent clients → connd-metrics.socket is active" is active systemctl is-active connd-metrics.socket
systemctl stop connd.service connd.socket
check "connd and its socket are stopped, and a client requests the metrics → connd starts" within 60 scraped '^connd_category'

echo "# remove, install again, purge"
check "apt removes the package" apt remove connd
check "the package is removed → the socket file is gone" test ! -e /run/connd/connd.sock
check "the package is removed → systemd has no unit of connd loaded" is '' bash -c 'systemctl list-units --all --no-legend "connd*" | grep -v not-found'
check "the package is removed → connd and connctl are gone" test ! -e /usr/bin/connd -a ! -e /usr/bin/connctl
check "the package is removed → the hand-edited configuration is kept" grep 'by hand' /etc/connd/connd.yaml
check "apt installs the package again" apt install "$new"
check "the package is installed again → connd answers" "${nobody[@]}" connctl status
check "the package is installed again → the hand-edited configuration is unchanged" grep 'by hand' /etc/connd/connd.yaml
check "apt purges the package" apt purge connd
check "the package is purged → no file named connd is left" is '' find /etc /usr /lib/systemd /var/lib/systemd /run/systemd/system -name '*connd*'
check "the package is purged → the overrides and the key are gone" test ! -e /var/lib/connd -a ! -e /var/lib/private/connd
check "the package is purged → its user is gone" exits 2 getent passwd _connd

echo "# network-online.target"
check "apt installs the package after the purge" apt install "$new"
check "enabling connd-wait-online.service → succeeds" systemctl enable connd-wait-online.service
check "connd-wait-online.service is ordered before network-online.target" grep -w network-online.target <(property connd-wait-online.service Before)
mkdir -p /etc/systemd/system/connd-wait-online.service.d
cat >/etc/systemd/system/connd-wait-online.service.d/short.conf <<'D'
[Service]
ExecStart=
ExecStart=connctl wait online --timeout 1s
D
systemctl daemon-reload
check "connd-wait-online with a limit of 1 s and no network → fails" exits 1 systemctl start connd-wait-online.service
check "connd-wait-online has failed → the journal says that online does not hold" within 60 \
    bash -c 'journalctl --unit=connd-wait-online --output=cat | grep "“online” does not hold after 1s (none: "'
rm -r /etc/systemd/system/connd-wait-online.service.d
systemctl daemon-reload
systemctl reset-failed connd-wait-online.service
# networkd must configure this link, which never comes up. networkd's own wait-online waits for it.
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
check "network-online.target starts without a network → connd-wait-online.service is activating" within 60 is activating systemctl is-active connd-wait-online.service
ip link set far0 up
check "starting systemd-networkd, which configures up0 → succeeds" systemctl start systemd-networkd.service
check "up0 is online → connd-wait-online.service is active" within 60 is active systemctl is-active connd-wait-online.service
check "up0 is online → network-online.target is active" within 60 is active systemctl is-active network-online.target
check "never0 has no carrier → networkd's own wait-online still waits" exits 1 /lib/systemd/systemd-networkd-wait-online --timeout=3
check "connctl is online --via a link without carrier → exits with 1" exits 1 connctl is online --via never0
check "connctl is online --via the working link → exits with 0" connctl is online --via up0
check "connctl wait online --family ipv6 without IPv6 → exits with 1" exits 1 connctl wait online --family ipv6 --timeout 500ms

finish connd.service connd.socket connd-wait-online.service
