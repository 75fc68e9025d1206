#!/bin/bash
# System integration of metering.
# polkit decides who may set overrides. Units that may only run on unmetered networks are bound to
# targets, here apt's timer. Begins offline.
cd "$(dirname "$(readlink -f "$0")")" || exit
. ./tap.sh

property() { systemctl show "$1" --property="$2" --value; }
said() { journalctl --unit="$1" --output=cat | grep -F -- "$2"; }

echo "# apt's timer"
check "connd runs since the boot" within 120 is active systemctl is-active connd.service
ip link add up0 type veth peer name far0
ip link set far0 up
ip link set up0 up
ip address add 192.0.2.2/24 dev up0
echo 'links: [{match: up0, medium: wired}]' >/etc/connd/connd.yaml
check "reload" systemctl reload connd.service
check "the machine is offline" connctl is none
systemctl --quiet unmask apt-daily.timer
for unit in apt-daily.timer apt-daily.service; do
    mkdir -p /etc/systemd/system/$unit.d
    printf '[Unit]\nPartOf=connd-unmetered.target\n' >/etc/systemd/system/$unit.d/unmetered.conf
done
# Not at six in the morning, and without a time limit.
cat >/etc/systemd/system/apt-daily.timer.d/now.conf <<'D'
[Timer]
OnCalendar=
OnActiveSec=1s
RandomizedDelaySec=0
AccuracySec=1s
Persistent=no
D
cat >/etc/systemd/system/apt-daily.service.d/long.conf <<'D'
[Service]
# A signal stops it, which otherwise is a failure of a oneshot.
SuccessExitStatus=TERM
ExecStartPre=
ExecStart=
ExecStart=sleep infinity
D
systemctl --quiet disable apt-daily.timer
systemctl daemon-reload
check "it is wanted where data is free" systemctl --quiet add-wants connd-unmetered.target apt-daily.timer

# states WORD WORD WORD WORD: the states of the two targets, of the timer and of its service.
states() { is "$(printf '%s\n' "$@")" systemctl is-active connd-online.target connd-unmetered.target apt-daily.timer apt-daily.service; }
echo "# targets"
check "they are there, and nobody starts them" states inactive inactive inactive inactive
check "the service that does is not enabled" is disabled systemctl is-enabled connd-targets.service
check "it is now" systemctl enable --now connd-targets.service
check "offline it stops both" within 60 said connd-targets "stop of connd-unmetered.target"
check "offline nothing runs" states inactive inactive inactive inactive
ip route add default via 192.0.2.1
check "online, and free: apt runs" within 120 states active active active activating
apt=$(property apt-daily.service MainPID)
main() { property connd-targets.service MainPID; }
check "it has nothing of root but its name" is '0000000000000000' bash -c "grep ^CapEff: /proc/$(main)/status | cut -f2"
check "its sandbox" systemd-analyze security --threshold=12 connd-targets.service
check "connd is started anew" systemctl restart connd.service
check "that is noticed" within 60 said connd-targets "connd is back"
check "and stops nothing" states active active active activating
check "D1 not even for a moment" is "$apt" property apt-daily.service MainPID
systemctl kill --signal=KILL --kill-who=main connd-targets.service
check "the service crashes and is started again" within 60 is 1 property connd-targets.service NRestarts
check "which stops nothing" states active active active activating
check "not even for a moment" is "$apt" property apt-daily.service MainPID
check "a user says that it costs money" connctl expensive up0
check "what is free ends, and what it has started" within 60 states active inactive inactive inactive
check "a user says that it does not" connctl expensive up0 off
check "apt runs again" within 120 states active active active activating
check "a user says that data is to be saved" connctl constrain up0
check "and apt does not run" within 60 states active inactive inactive inactive
check "a user says nothing more" connctl forget up0
check "apt runs once more" within 120 states active active active activating
check "the service is stopped" systemctl stop connd-targets.service
check "and both targets with it" within 60 states inactive inactive inactive inactive
check "it is started again" systemctl start connd-targets.service
check "and both targets" within 120 states active active active activating
ip route del default
check "offline again" within 60 states inactive inactive inactive inactive
check "which is no failure" exits 1 systemctl is-failed connd-targets.service connd-online.target connd-unmetered.target apt-daily.service
systemctl stop connd-targets.service

echo "# polkit"
ip route add default via 192.0.2.1
check "online" connctl wait online --timeout 1m
useradd --uid 4321 guest
useradd --uid 4322 --groups connd member
as() { setpriv --reuid="$1" --regid="$1" --init-groups "${@:2}"; }
refused() { as guest connctl constrain up0 2>&1 | grep -F -- "$1"; }
check "connd has a user that the bus can look up, and is on it" within 60 bash -c "busctl list --no-pager | grep -w _connd"
# The bus starts it, which may take an emulated machine longer than connd waits.
check "polkit starts" systemctl start polkit.service
check "somebody who sits nowhere may not" exits 77 as guest connctl constrain up0
check "says polkit" refused org.connd.set-cost
check "and changed nothing" connctl is not-constrained
check "its rule for the group's members" as member connctl constrain up0
check "it holds" connctl is constrained
check "and for what is forgotten" as member connctl forget up0
check "root needs no rule" connctl constrain up0
# session TERMINAL USER COMMAND...: runs COMMAND in a session of USER on TERMINAL; with `none`, at
# no seat.
session() {
    systemd-run --quiet --wait --pipe --collect --uid="$2" --property=PAMName=login ${1:+--property=TTYPath="/dev/$1"} "${@:3}"
}
# Each user's own services only take time here.
systemctl --quiet mask user@.service
check "logind knows of a seat" within 30 loginctl seat-status seat0
check "who sits before the machine may, without a password" session tty1 guest connctl constrain up0 off
check "it holds" connctl is not-constrained
check "a session that is not in front may not" exits 77 session tty2 guest connctl constrain up0
check "nor one without a seat, as those from afar" exits 77 session '' guest connctl constrain up0
check "and changed nothing" connctl is not-constrained
# A remote guest connects, passes the connection on and exits. A process of the same guest, at the
# seat, gets its pid.
as guest python3 "$PWD/orphan.py" /run/connd/connd.sock /tmp/relay >/tmp/orphan &
check "a guest's process connects and exits" within 60 grep -q '^ready' /tmp/orphan
pid=$(cut -d' ' -f2 /tmp/orphan)
systemd-run --quiet --collect --unit=taker --uid=guest --property=PAMName=login --property=TTYPath=/dev/tty1 \
    --property=AmbientCapabilities=CAP_CHECKPOINT_RESTORE python3 "$PWD/take_pid.py" "$pid" 4321
check "its pid is that of a process at the seat" within 60 grep -qs session- "/proc/$pid/cgroup"
check "polkit takes the one for the other" pkcheck --action-id org.connd.set-cost --process "$pid,0,4321"
check "connd does not" exits 77 as guest connctl --socket /tmp/relay constrain up0
check "and changed nothing" connctl is not-constrained
systemctl stop taker.service
check "an administrator has rules of his own" tee /etc/polkit-1/rules.d/10-guests.rules <<'R'
polkit.addRule(function (action, subject) {
    if (action.id == "org.connd.set-cost") return subject.user == "guest" ? polkit.Result.YES : polkit.Result.NO;
});
R
check "by which a guest may" within 60 as guest connctl constrain up0 off
check "and a member may not" exits 77 as member connctl constrain up0
check "root still may" connctl forget up0
systemctl kill --signal=STOP polkit.service
check "one that hangs has not decided, also about the group" exits 69 as member connctl constrain up0
check "and a guest learns why" refused "polkit cannot decide"
check "it changed nothing" connctl is not-constrained
check "root may" connctl constrain up0
systemctl kill --signal=KILL polkit.service
systemctl --quiet mask --now polkit.service
check "one that does not start has not decided" exits 69 as member connctl forget up0
rm /usr/share/dbus-1/system-services/org.freedesktop.PolicyKit1.service
check "the bus learns that there is no polkit" busctl call org.freedesktop.DBus / org.freedesktop.DBus ReloadConfig
check "without polkit the group may" as member connctl forget up0
check "a guest may not" exits 77 as guest connctl constrain up0
check "who sits before the machine may" session tty1 guest connctl constrain up0
check "and not behind it" exits 77 session tty2 guest connctl forget up0
check "nobody complains" is '' journalctl --quiet --unit=connd --priority=warning --output=cat
finish connd.service connd-targets.service polkit.service
