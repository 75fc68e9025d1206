#!/bin/bash
# System integration of metering.
# polkit decides who may set overrides. Units that may only run on unmetered networks are bound to
# targets, here apt's timer. Begins offline.
cd "$(dirname "$(readlink -f "$0")")" || exit
. ./tap.sh

property() { systemctl show "$1" --property="$2" --value; }
said() { journalctl --unit="$1" --output=cat | grep -F -- "$2"; }

echo "# apt's timer"
check "boot → connd.service is active" within 120 is active systemctl is-active connd.service
ip link add up0 type veth peer name far0
ip link set far0 up
ip link set up0 up
ip address add 192.0.2.2/24 dev up0
echo 'links: [{match: up0, medium: wired}]' >/etc/connd/connd.yaml
check "reload with up0 as a wired link → succeeds" systemctl reload connd.service
check "no default route → connd reports none" connctl is none
systemctl --quiet unmask apt-daily.timer
for unit in apt-daily.timer apt-daily.service; do
    mkdir -p /etc/systemd/system/$unit.d
    printf '[Unit]\nPartOf=connd-unmetered.target\n' >/etc/systemd/system/$unit.d/unmetered.conf
done
# Starts immediately, instead of at six in the morning. The service runs until it is stopped.
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
# Otherwise a oneshot that is stopped by a signal counts as failed.
SuccessExitStatus=TERM
ExecStartPre=
ExecStart=
ExecStart=sleep infinity
D
systemctl --quiet disable apt-daily.timer
systemctl daemon-reload
check "adding apt-daily.timer to the wants of connd-unmetered.target → succeeds" systemctl --quiet add-wants connd-unmetered.target apt-daily.timer

# states WORD WORD WORD WORD: whether these are the states of the two targets, of the timer, and of
# its service.
states() { is "$(printf '%s\n' "$@")" systemctl is-active connd-online.target connd-unmetered.target apt-daily.timer apt-daily.service; }
echo "# targets"
check "connd-targets.service has not started → both targets and apt are inactive" states inactive inactive inactive inactive
check "connd-targets.service is disabled by default" is disabled systemctl is-enabled connd-targets.service
check "enabling and starting connd-targets.service → succeeds" systemctl enable --now connd-targets.service
check "connd-targets starts while offline → it stops connd-unmetered.target" within 60 said connd-targets "connd-unmetered.target: stop requested"
check "connd-targets runs while offline → both targets and apt stay inactive" states inactive inactive inactive inactive
ip route add default via 192.0.2.1
check "an unmetered network appears → both targets and apt start" within 120 states active active active activating
apt=$(property apt-daily.service MainPID)
main() { property connd-targets.service MainPID; }
check "connd-targets has no effective capabilities" is '0000000000000000' bash -c "grep ^CapEff: /proc/$(main)/status | cut -f2"
check "systemd-analyze security rates the exposure of connd-targets at 1.2 or less" systemd-analyze security --threshold=12 connd-targets.service
check "restarting connd while connd-targets runs → succeeds" systemctl restart connd.service
check "connd has restarted → connd-targets logs that connd is back" within 60 said connd-targets "connd is back"
check "connd has restarted → both targets and apt keep running" states active active active activating
check "D1 connd has restarted → apt-daily.service keeps its PID" is "$apt" property apt-daily.service MainPID
systemctl kill --signal=KILL --kill-who=main connd-targets.service
check "connd-targets is killed → systemd restarts it once" within 60 is 1 property connd-targets.service NRestarts
check "connd-targets was killed → both targets and apt keep running" states active active active activating
check "connd-targets was killed → apt-daily.service keeps its PID" is "$apt" property apt-daily.service MainPID
check "the user overrides up0 as metered → accepted" connctl expensive up0 on
check "up0 becomes metered → connd-unmetered.target and apt stop, connd-online.target stays" within 60 states active inactive inactive inactive
check "the user overrides up0 as not metered → accepted" connctl expensive up0 off
check "up0 becomes unmetered → apt starts again" within 120 states active active active activating
check "the user overrides up0 as constrained → accepted" connctl constrain up0 on
check "up0 becomes constrained → connd-unmetered.target and apt stop" within 60 states active inactive inactive inactive
check "the user removes all overrides of up0 → accepted" connctl forget up0
check "the overrides of up0 are removed → apt starts again" within 120 states active active active activating
check "stopping connd-targets.service → succeeds" systemctl stop connd-targets.service
check "connd-targets.service is stopped → both targets and apt stop" within 60 states inactive inactive inactive inactive
check "starting connd-targets.service again → succeeds" systemctl start connd-targets.service
check "connd-targets.service has started again → both targets and apt start" within 120 states active active active activating
ip route del default
check "the default route is removed → both targets and apt stop" within 60 states inactive inactive inactive inactive
check "the default route is removed → no unit is failed" exits 1 systemctl is-failed connd-targets.service connd-online.target connd-unmetered.target apt-daily.service
systemctl stop connd-targets.service

echo "# polkit"
ip route add default via 192.0.2.1
check "the default route is back → connd reports online" connctl wait online --timeout 1m
useradd --uid 4321 guest
useradd --uid 4322 --groups connd member
as() { setpriv --reuid="$1" --regid="$1" --init-groups "${@:2}"; }
refused() { as guest connctl constrain up0 on 2>&1 | grep -F -- "$1"; }
check "connd is on the system bus as user _connd" within 60 bash -c "busctl list --no-pager | grep -w _connd"
# Otherwise the bus would start it, which may take longer on an emulated machine than connd waits.
check "starting polkit.service → succeeds" systemctl start polkit.service
check "a user without a session constrains up0 → denied (exit 77)" exits 77 as guest connctl constrain up0 on
check "polkit denies an override → the error names the action org.connd.set-cost" refused org.connd.set-cost
check "polkit has denied the override → up0 is not constrained" connctl is not-constrained
check "a member of the group connd constrains up0 → the installed polkit rule allows it" as member connctl constrain up0 on
check "a member's override was accepted → up0 is constrained" connctl is constrained
check "a member of the group connd removes the override → the installed polkit rule allows it" as member connctl forget up0
check "root constrains up0 → allowed" connctl constrain up0 on
# session TERMINAL USER COMMAND...: runs COMMAND in a session of USER on TERMINAL. If TERMINAL is
# empty, the session has no seat.
session() {
    systemd-run --quiet --wait --pipe --collect --uid="$2" --property=PAMName=login ${1:+--property=TTYPath="/dev/$1"} "${@:3}"
}
# The users' own service managers are not needed here, and take time to start.
systemctl --quiet mask user@.service
check "logind has the seat seat0" within 30 loginctl seat-status seat0
check "a user in the active session at the seat removes the constraint → allowed without a password" session tty1 guest connctl constrain up0 off
check "the seat user's override was accepted → up0 is not constrained" connctl is not-constrained
check "a user in an inactive session constrains up0 → denied (exit 77)" exits 77 session tty2 guest connctl constrain up0 on
check "a user in a session without a seat, as over SSH, constrains up0 → denied (exit 77)" exits 77 session '' guest connctl constrain up0 on
check "both overrides were denied → up0 is not constrained" connctl is not-constrained
# A client without a session connects, hands its connection to a relay, and exits. A process of the
# same user, in a session at the seat, then gets its PID.
as guest python3 "$PWD/orphan.py" /run/connd/connd.sock /tmp/relay >/tmp/orphan &
check "a client without a session connects, hands its connection to a relay, and exits" within 60 grep -q '^ready' /tmp/orphan
pid=$(cut -d' ' -f2 /tmp/orphan)
systemd-run --quiet --collect --unit=taker --uid=guest --property=PAMName=login --property=TTYPath=/dev/tty1 \
    --property=AmbientCapabilities=CAP_CHECKPOINT_RESTORE python3 "$PWD/take_pid.py" "$pid" 4321
check "the client has exited → a process in the session at the seat gets its PID" within 60 grep -qs session- "/proc/$pid/cgroup"
check "pkcheck with the reused PID → polkit allows the action" pkcheck --action-id org.connd.set-cost --process "$pid,0,4321"
check "connctl uses the relay of the exited client → connd denies the override (exit 77)" exits 77 as guest connctl --socket /tmp/relay constrain up0
check "the override over the relay was denied → up0 is not constrained" connctl is not-constrained
systemctl stop taker.service
check "an administrator adds a polkit rule that allows only the user guest → written" tee /etc/polkit-1/rules.d/10-guests.rules <<'R'
polkit.addRule(function (action, subject) {
    if (action.id == "org.connd.set-cost") return subject.user == "guest" ? polkit.Result.YES : polkit.Result.NO;
});
R
check "the administrator's rule allows guest → guest may override up0" within 60 as guest connctl constrain up0 off
check "the administrator's rule denies others → a member of the group connd is denied (exit 77)" exits 77 as member connctl constrain up0 on
check "the administrator's rule denies others → root may still remove the override" connctl forget up0
systemctl kill --signal=STOP polkit.service
check "polkit hangs → a member of the group connd gets no decision (exit 69)" exits 69 as member connctl constrain up0 on
check "polkit hangs → the error says that polkit cannot decide" refused "polkit cannot decide"
check "polkit hangs → up0 is not constrained" connctl is not-constrained
check "polkit hangs → root may constrain up0" connctl constrain up0 on
systemctl kill --signal=KILL polkit.service
systemctl --quiet mask --now polkit.service
check "polkit cannot start → a member of the group connd gets no decision (exit 69)" exits 69 as member connctl forget up0
rm /usr/share/dbus-1/system-services/org.freedesktop.PolicyKit1.service
check "polkit's bus service file is deleted → the bus reloads its configuration" busctl call org.freedesktop.DBus / org.freedesktop.DBus ReloadConfig
check "polkit is not installed → a member of the group connd may remove the override" as member connctl forget up0
check "polkit is not installed → a user without a session is denied (exit 77)" exits 77 as guest connctl constrain up0 on
check "polkit is not installed → a user in the active session may constrain up0" session tty1 guest connctl constrain up0 on
check "polkit is not installed → a user in an inactive session is denied (exit 77)" exits 77 session tty2 guest connctl forget up0
check "connd has logged no warnings" is '' journalctl --quiet --unit=connd --priority=warning --output=cat
finish connd.service connd-targets.service polkit.service
