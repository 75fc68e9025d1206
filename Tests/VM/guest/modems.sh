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

# modem: the state of the modem that ModemManager has found.
modem() { busctl get-property org.freedesktop.ModemManager1 /org/freedesktop/ModemManager1/Modem/0 org.freedesktop.ModemManager1.Modem State; }
# asked COUNT: whether ModemManager was asked for its objects this many times, which only connd
# does.
asked() { is "$1" grep -c '^method call' /run/asked; }
# connects: whether connd is on the bus. connd looks for the bus whenever there is a new link.
connects() { busctl list --no-pager | grep -w connd; }

echo "# ModemManager"
ip link add news type veth peer name of
check "connd runs since the boot" within 120 is active systemctl is-active connd.service
check "D3 its user is let in by the bus" within 60 connects
check "reload" configure </dev/null
connctl watch --json >>/run/watch 2>&1 &
dbus-monitor --system "type=method_call,path=/org/freedesktop/ModemManager1,member=GetManagedObjects" >/run/asked 2>&1 &
check "the bus is heard" within 30 test -s /run/asked
# ModemManager ignores software modems by default.
mkdir -p /run/udev/rules.d
echo 'SUBSYSTEM=="net|wwan", KERNEL=="wwan0*", ENV{ID_MM_PHYSDEV_UID}="software", ENV{ID_MM_DEVICE_PROCESS}="1"' >/run/udev/rules.d/78-software.rules
udevadm control --reload
check "a modem" modprobe wwan_hwsim devices=1
check "it has a link" within 30 test -e /sys/class/net/wwan0
check "ModemManager starts" systemctl start ModemManager.service
check "connd asks it" within 60 asked 1
# It supports AT commands, but no network: ModemManager uses it, and can do nothing with it.
check "ModemManager finds the modem, which has no network" within 120 is 'i -1' modem
ip link set wwan0 up
ip address add 100.64.0.5/30 dev wwan0
ip route add default dev wwan0
check "K5 traffic by its link is cellular" connctl wait cellular --timeout 2m
check "and costs money" connctl is expensive
check "K5 its kind says so, for there is no bearer" lists wwan0 '"source": "kind", "value": "wwan"' '"modem": null'
check "connd is started anew" systemctl restart connd.service
check "and reads the modem that is there" within 60 asked 2
check "it is cellular still" connctl wait cellular --timeout 2m
before=$(switches)
sleep 20
# At most the watchdog's.
check "D7 an idle ModemManager wakes nobody" test $(($(switches) - before)) -le 3
check "ModemManager is killed" systemctl kill --signal=KILL ModemManager.service
check "and starts again" within 60 is active systemctl is-active ModemManager.service
systemctl start ModemManager.service
check "connd asks it again" within 60 asked 3
check "it finds the modem again" within 120 is 'i -1' modem
check "the modem is pulled out" modprobe -r wwan_hwsim
check "its path is gone" connctl wait none --timeout 2m
check "ModemManager stops" systemctl stop ModemManager.service

# gadget NAME VENDOR PRODUCT FUNCTION: a device on this machine's own bus, whose other end is in the
# namespace NAME as a router (10.0.3.1) with the server behind it.
gadgets=/sys/kernel/config/usb_gadget
gadget() {
    local name=$1 far directory=$gadgets/$1
    mkdir -p "$directory"/{strings/0x409,configs/c.1,"functions/$4.u0"}
    echo "$2" >"$directory/idVendor"
    echo "$3" >"$directory/idProduct"
    ln -s "$directory/functions/$4.u0" "$directory/configs/c.1"
    basename -a /sys/class/udc/* | head -1 >"$directory/UDC"
    check "the $name is plugged in" within 30 plugged
    near=$(plugged)
    far=$(cat "$directory/functions/$4.u0/ifname")
    router "$name" "$far"
    ip link set "$near" up
    # The gadget's first report of its carrier may be lost without a listener (cdc_ether): it
    # repeats it.
    ip -n "$name" link set "$far" down
    ip -n "$name" link set "$far" up
    ip address add 10.0.3.2/24 dev "$near"
    ip route replace default via 10.0.3.1
}
# announced: the class of the link's USB interface.
announced() { cat "/sys/class/net/$near/device/bInterface"{Class,SubClass,Protocol} | tr '\n' ' '; }
plugged() { basename -a /sys/devices/platform/dummy_hcd.0/usb*/*/*/net/* 2>/dev/null | grep -v '^\*$'; }
unplug() { echo >"$gadgets/$1/UDC"; }
# router NAMESPACE LINK: moves the link there.
router() {
    ip netns add "$1"
    ip -n "$1" link set lo up
    ip link set "$2" netns "$1"
    ip -n "$1" link set "$2" up
    ip -n "$1" address add 10.0.3.1/24 dev "$2"
    serve "$1"
}
# lost NAME: the checks after a link with a connection has gone.
lost() {
    check "I2 without the $1 the connection is destroyed" within 60 told /run/guard '"destroy"'
    check "I2 and carries nothing" dead
    check "I2 its guard is over" within 60 over
    exec {socket}>&-
    check "there is no network" connctl wait none --timeout 2m
}

echo "# a board by USB"
check "its drivers" modprobe -a dummy_hcd libcomposite usb_f_rndis usb_f_ecm
mountpoint -q /sys/kernel/config || mount -t configfs configfs /sys/kernel/config
gadget board 0x0525 0xa4a2 rndis
check "K5 it looks like a cable" connctl wait wired --timeout 2m
# Like this kernel's gadget, and unlike Android.
check "it announces RNDIS as boards do" is '02 02 ff ' announced
check "K5 and is taken for no phone, and costs nothing" lists "$near" '"via": null' '"expensive": false'
call 10.0.3.2
check "reload" configure <<<"links: [{match: $near, expensive: true}]"
check "a user who says so pays" connctl wait expensive --timeout 1m
check "I0 the connection goes on" echoes
check "reload" configure </dev/null
unplug board
lost board

echo "# a modem by USB"
# A u-blox device: cdc_ether knows it as a modem.
gadget modem 0x1546 0x1143 ecm
check "K5 it is cellular" connctl wait cellular --timeout 2m
check "it announces ECM" is '02 06 00 ' announced
check "K5 and no phone" lists "$near" '"source": "deviceType", "value": "wwan"' '"via": null'
call 10.0.3.2
mkfifo /run/modem
python3 modem_manager.py unix:path=/run/dbus/system_bus_socket /run/modem >/run/modem.answers &
check "something stands for ModemManager" within 60 grep ready /run/modem.answers
# tell JSON: sends it a command.
answers=0
tell() {
    echo "$1" >/run/modem
    answers=$((answers + 1))
    check "it ${2:?}" within 30 is $answers grep -c done /run/modem.answers
}
# dialled NUMBER: what it reports about a modem that has dialled.
dialled() {
    echo '{"publish": {"Bearer/'"$1"'": {"Bearer": {"Interface": ["s", "'"$near"'"], "Connected": ["b", true], "Suspended": ["b", false]}},' \
        '"Modem/0": {"Modem": {"AccessTechnologies": ["u", 16384], "Bearers": ["ao", ["Bearer/'"$1"'"]], "State": ["i", 11], "SignalQuality": ["(ub)", [67, true]]},' \
        '"Modem.Modem3gpp": {"RegistrationState": ["u", 5]}}}}'
}
tell "$(dialled 0)" "says that the link is a modem's"
check "K5 the listing says so" within 60 lists "$near" '"modem": {"connected": true, "suspended": false, "technology": "4G", "roaming": true, "signalQuality": 67}'
check "I0 the connection goes on" echoes
check "I0 and nothing was told of it" untold /run/guard '"severity"'
tell '{"set": ["Bearer/0", "Bearer", {"Suspended": ["b", true]}]}' "is suspended by a telephone call"
check "K3 meanwhile there is no network" connctl wait none --timeout 2m
tell '{"set": ["Bearer/0", "Bearer", {"Suspended": ["b", false]}]}' "goes on"
check "K3 then it is there again" connctl wait cellular --timeout 2m
check "I0 the connection goes on" echoes
check "I0 and nothing has ended it" untold /run/guard '"severity": ?"destroy"'
tell '{"set": ["Bearer/0", "Bearer", {"Connected": ["b", false]}]}' "hangs up"
ip address flush dev "$near"
check "I1 the connection is destroyed" within 60 told /run/guard '"destroy"'
check "I1 and carries nothing" dead
check "I1 its guard is over" within 60 over
exec {socket}>&-
tell "$(dialled 1)" "dials again"
ip address add 10.0.3.7/24 dev "$near"
ip route replace default via 10.0.3.1
check "the new connection to the network serves" connctl wait cellular --timeout 2m
call 10.0.3.7
unplug modem
lost modem

echo "# a phone by Bluetooth"
check "its drivers" modprobe -a hci_vhci bnep
systemd-run --quiet --unit=controllers btvirt -l2
check "two controllers" within 30 is 2 bash -c 'hciconfig | grep -c "BD Address"'
for controller in hci0 hci1; do check "$controller is on" within 30 hciconfig $controller up piscan; done
systemd-run --quiet --unit=bluetooth-network --property=StandardOutput=file:/run/bluetooth python3 "$PWD/bluetooth.py"
check "the phone is paired" within 60 grep bnep /run/bluetooth
read -r far near </run/bluetooth
router paired "$far"
ip link set "$near" up
ip address add 10.0.3.2/24 dev "$near"
ip route replace default via 10.0.3.1
check "K5 it is Bluetooth's" connctl wait other --timeout 2m
check "and costs money" lists "$near" '"source": "deviceType", "value": "bluetooth"' '"expensive": true'
call 10.0.3.2
check "the phone goes away" systemctl stop bluetooth-network.service
lost phone

check "connd complained of nothing" is '' journalctl --quiet --unit=connd --priority=warning --output=cat _COMM=connd
finish connd.service ModemManager.service bluetooth-network.service controllers.service
