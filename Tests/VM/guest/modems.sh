#!/bin/bash
# connd and links other than cables and Wi-Fi:
# the real ModemManager with a software modem (wwan_hwsim); a stand-in for it, because that modem
# has no network to register with (modem_manager.py); a USB board and a USB modem (dummy_hcd,
# gadgets of this kernel); and a Bluetooth phone (bnep over software controllers). The phone and the
# USB devices are routers in their own namespaces with the server behind them: connd's reports are
# compared with a connection that carries bytes.
cd "$(dirname "$(readlink -f "$0")")" || exit
. ./tap.sh
. ./connection.sh

# modem: prints the state of the modem that ModemManager has found.
modem() { busctl get-property org.freedesktop.ModemManager1 /org/freedesktop/ModemManager1/Modem/0 org.freedesktop.ModemManager1.Modem State; }
# asked COUNT: whether ModemManager has received this many calls of GetManagedObjects. Only connd
# makes them.
asked() { is "$1" grep -c '^method call' /run/asked; }
# connects: whether connd is on the bus. connd looks for the bus whenever a link appears.
connects() { busctl list --no-pager | grep -w connd; }

echo "# ModemManager"
ip link add news type veth peer name of
check "boot → connd.service is active" within 120 is active systemctl is-active connd.service
check "D3 connd's user is allowed on the system bus" within 60 connects
check "reload with an empty configuration → succeeds" configure </dev/null
connctl watch --json >>/run/watch 2>&1 &
dbus-monitor --system "type=method_call,path=/org/freedesktop/ModemManager1,member=GetManagedObjects" >/run/asked 2>&1 &
check "dbus-monitor has started" within 30 test -s /run/asked
# ModemManager ignores software modems by default.
mkdir -p /run/udev/rules.d
echo 'SUBSYSTEM=="net|wwan", KERNEL=="wwan0*", ENV{ID_MM_PHYSDEV_UID}="software", ENV{ID_MM_DEVICE_PROCESS}="1"' >/run/udev/rules.d/78-software.rules
udevadm control --reload
check "loading wwan_hwsim → succeeds" modprobe wwan_hwsim devices=1
check "wwan_hwsim is loaded → wwan0 exists" within 30 test -e /sys/class/net/wwan0
check "starting ModemManager → succeeds" systemctl start ModemManager.service
check "ModemManager starts → connd queries its objects once" within 60 asked 1
# The modem accepts AT commands but has no network, so ModemManager cannot connect it.
check "ModemManager finds the software modem, which has no network" within 120 is 'i -1' modem
ip link set wwan0 up
ip address add 100.64.0.5/30 dev wwan0
ip route add default dev wwan0
check "K5 the default route uses wwan0 → connd reports cellular" connctl wait cellular --timeout 2m
check "the default route uses wwan0 → connd reports metered" connctl is expensive
check "K5 wwan0 has no bearer → connctl links names its kind, wwan, as the evidence" lists wwan0 '"source": "kind", "value": "wwan"' '"modem": null'
check "restarting connd while a modem exists → succeeds" systemctl restart connd.service
check "connd restarts while a modem exists → it queries ModemManager once more" within 60 asked 2
check "connd has restarted while a modem exists → it reports cellular" connctl wait cellular --timeout 2m
before=$(switches)
sleep 20
# The watchdog wakes connd a few times.
check "D7 ModemManager is idle for 20 s → connd is woken at most by its watchdog" test $(($(switches) - before)) -le 3
check "killing ModemManager → succeeds" systemctl kill --signal=KILL ModemManager.service
check "ModemManager was killed → systemd restarts it" within 60 is active systemctl is-active ModemManager.service
systemctl start ModemManager.service
check "ModemManager has restarted → connd queries its objects again" within 60 asked 3
check "ModemManager has restarted → it finds the software modem again" within 120 is 'i -1' modem
check "unloading wwan_hwsim → succeeds" modprobe -r wwan_hwsim
check "the modem is removed → connd reports none" connctl wait none --timeout 2m
check "stopping ModemManager → succeeds" systemctl stop ModemManager.service

# gadget NAME VENDOR PRODUCT FUNCTION: plugs a USB device into this machine. The device is a router
# (10.0.3.1) in the namespace NAME, with the server behind it.
gadgets=/sys/kernel/config/usb_gadget
gadget() {
    local name=$1 far directory=$gadgets/$1
    mkdir -p "$directory"/{strings/0x409,configs/c.1,"functions/$4.u0"}
    echo "$2" >"$directory/idVendor"
    echo "$3" >"$directory/idProduct"
    ln -s "$directory/functions/$4.u0" "$directory/configs/c.1"
    basename -a /sys/class/udc/* | head -1 >"$directory/UDC"
    check "the USB gadget $name is plugged in → its network link exists" within 30 plugged
    near=$(plugged)
    far=$(cat "$directory/functions/$4.u0/ifname")
    router "$name" "$far"
    ip link set "$near" up
    # cdc_ether may miss the gadget's first report of its carrier. Down and up repeats the report.
    ip -n "$name" link set "$far" down
    ip -n "$name" link set "$far" up
    ip address add 10.0.3.2/24 dev "$near"
    ip route replace default via 10.0.3.1
}
# announced: prints the class of the link's USB interface.
announced() { cat "/sys/class/net/$near/device/bInterface"{Class,SubClass,Protocol} | tr '\n' ' '; }
plugged() { basename -a /sys/devices/platform/dummy_hcd.0/usb*/*/*/net/* 2>/dev/null | grep -v '^\*$'; }
unplug() { echo >"$gadgets/$1/UDC"; }
# router NAMESPACE LINK: moves LINK there, as the router 10.0.3.1 with the server.
router() {
    ip netns add "$1"
    ip -n "$1" link set lo up
    ip link set "$2" netns "$1"
    ip -n "$1" link set "$2" up
    ip -n "$1" address add 10.0.3.1/24 dev "$2"
    serve "$1"
}
# lost NAME: the checks after the link of a guarded connection is gone.
lost() {
    check "I2 the link of the $1 is gone → connd destroys the connection" within 60 told /run/guard '"destroy"'
    check "I2 the link of the $1 is gone → the connection carries nothing" dead
    check "I2 the link of the $1 is gone → connctl guard exits" within 60 over
    exec {socket}>&-
    check "the link of the $1 is gone → connd reports none" connctl wait none --timeout 2m
}

echo "# a USB board"
check "loading the USB gadget drivers → succeeds" modprobe -a dummy_hcd libcomposite usb_f_rndis usb_f_ecm
mountpoint -q /sys/kernel/config || mount -t configfs configfs /sys/kernel/config
gadget board 0x0525 0xa4a2 rndis
check "K5 the default route uses a USB board → connd reports wired" connctl wait wired --timeout 2m
# This kernel's RNDIS gadget has this class; Android phones have another.
check "the board's USB interface has the RNDIS class of boards, not of phones" is '02 02 ff ' announced
check "K5 a board by USB → connctl links lists it as neither a phone nor metered" lists "$near" '"via": null' '"expensive": false'
call 10.0.3.2
check "reload with the board's link as metered → succeeds" configure <<<"links: [{match: $near, expensive: true}]"
check "the configuration says that the board's link is metered → connd reports metered" connctl wait expensive --timeout 1m
check "I0 the board's link becomes metered → the connection still echoes" echoes
check "reload without the board's link → succeeds" configure </dev/null
unplug board
lost board

echo "# a USB modem"
# A u-blox device: cdc_ether knows it as a modem.
gadget modem 0x1546 0x1143 ecm
check "K5 the default route uses a USB modem → connd reports cellular" connctl wait cellular --timeout 2m
check "the USB modem's interface has the ECM class" is '02 06 00 ' announced
check "K5 a USB modem → connctl links lists it as wwan, not as a phone" lists "$near" '"source": "deviceType", "value": "wwan"' '"via": null'
call 10.0.3.2
mkfifo /run/modem
python3 modem_manager.py unix:path=/run/dbus/system_bus_socket /run/modem >/run/modem.answers &
check "the ModemManager stand-in is on the bus" within 60 grep ready /run/modem.answers
# tell JSON EFFECT: sends the stand-in a command, and checks that it has answered.
answers=0
tell() {
    echo "$1" >/run/modem
    answers=$((answers + 1))
    check "the ModemManager stand-in ${2:?}" within 30 is $answers grep -c done /run/modem.answers
}
# dialled NUMBER: prints the command that reports bearer NUMBER as connected.
dialled() {
    echo '{"publish": {"Bearer/'"$1"'": {"Bearer": {"Interface": ["s", "'"$near"'"], "Connected": ["b", true], "Suspended": ["b", false]}},' \
        '"Modem/0": {"Modem": {"AccessTechnologies": ["u", 16384], "Bearers": ["ao", ["Bearer/'"$1"'"]], "State": ["i", 11], "SignalQuality": ["(ub)", [67, true]]},' \
        '"Modem.Modem3gpp": {"RegistrationState": ["u", 5]}}}}'
}
tell "$(dialled 0)" "reports bearer 0 as connected"
check "K5 the bearer is connected → connctl links lists technology, roaming and signal" within 60 lists "$near" '"modem": {"connected": true, "suspended": false, "technology": "4G", "roaming": true, "signalQuality": 67}'
check "I0 the bearer is reported as connected → the connection still echoes" echoes
check "I0 the bearer is reported as connected → connd reports nothing about the connection" untold /run/guard '"severity"'
tell '{"set": ["Bearer/0", "Bearer", {"Suspended": ["b", true]}]}' "reports the bearer as suspended, as by a telephone call"
check "K3 the bearer is suspended → connd reports none" connctl wait none --timeout 2m
tell '{"set": ["Bearer/0", "Bearer", {"Suspended": ["b", false]}]}' "reports the bearer as resumed"
check "K3 the bearer is resumed → connd reports cellular" connctl wait cellular --timeout 2m
check "I0 the bearer was suspended and resumed → the connection still echoes" echoes
check "I0 the bearer was suspended and resumed → connd does not destroy the connection" untold /run/guard '"severity": ?"destroy"'
tell '{"set": ["Bearer/0", "Bearer", {"Connected": ["b", false]}]}' "reports the bearer as disconnected"
ip address flush dev "$near"
check "I1 the bearer is disconnected and its address removed → connd destroys the connection" within 60 told /run/guard '"destroy"'
check "I1 the bearer is disconnected → the connection carries nothing" dead
check "I1 connd has destroyed the connection → connctl guard exits" within 60 over
exec {socket}>&-
tell "$(dialled 1)" "reports bearer 1 as connected"
ip address add 10.0.3.7/24 dev "$near"
ip route replace default via 10.0.3.1
check "a new bearer is connected, with a new address → connd reports cellular" connctl wait cellular --timeout 2m
call 10.0.3.7
unplug modem
lost modem

echo "# a Bluetooth phone"
check "loading the Bluetooth drivers → succeeds" modprobe -a hci_vhci bnep
systemd-run --quiet --unit=controllers btvirt -l2
check "btvirt has created two Bluetooth controllers" within 30 is 2 bash -c 'hciconfig | grep -c "BD Address"'
for controller in hci0 hci1; do check "Bluetooth controller $controller is up" within 30 hciconfig $controller up piscan; done
systemd-run --quiet --unit=bluetooth-network --property=StandardOutput=file:/run/bluetooth python3 "$PWD/bluetooth.py"
check "phone and machine are connected → both have a bnep link" within 60 grep bnep /run/bluetooth
read -r far near </run/bluetooth
router paired "$far"
ip link set "$near" up
ip address add 10.0.3.2/24 dev "$near"
ip route replace default via 10.0.3.1
check "K5 the default route uses a Bluetooth phone → connd reports other" connctl wait other --timeout 2m
check "a Bluetooth phone → connctl links lists it as metered" lists "$near" '"source": "deviceType", "value": "bluetooth"' '"expensive": true'
call 10.0.3.2
check "stopping the Bluetooth phone → succeeds" systemctl stop bluetooth-network.service
lost phone

check "connd has logged no warnings" is '' journalctl --quiet --unit=connd --priority=warning --output=cat _COMM=connd
finish connd.service ModemManager.service bluetooth-network.service controllers.service
