# Sourced by ./run: the programs that are compared. Each runs in a network namespace of its own,
# with a D-Bus daemon, a /run and a configuration of its own. `daemons` has their processes by
# namespace, `buses` those of their D-Bus daemons.

# begin NAMESPACE COMMAND...: sets `begun` to the process.
begin() {
    ip netns exec "$@" </dev/null >>"$work/log" 2>&1 &
    begun=$!
    processes+=($begun)
}

# until_true COMMAND...: waits until it succeeds.
until_true() {
    local tries
    for tries in {1..600}; do
        ! "$@" >/dev/null 2>&1 || return 0
        sleep 0.05
    done
    echo "not within 30 seconds: $*" >&2
    tail -n 20 "$work/log" >&2
    return 1
}

# make_house NAMESPACE: makes its files and starts its bus, which admits each user and thousands of
# subscribers. Sets `address`.
make_house() {
    mkdir -p "$work/$1"/{etc,run,var}
    address=unix:path=$work/$1/bus
    cat >"$work/$1/bus.conf" <<END
<busconfig>
  <type>system</type>
  <listen>$address</listen>
  <policy context="default">
    <allow user="*"/> <allow own="*"/> <allow send_type="method_call"/> <allow send_type="signal"/>
    <allow receive_type="method_call"/> <allow receive_type="signal"/> <allow send_requested_reply="true"/>
    <allow receive_requested_reply="true"/> <allow eavesdrop="true"/>
  </policy>
  <limit name="max_completed_connections">5000</limit>
  <limit name="max_incomplete_connections">5000</limit>
  <limit name="max_connections_per_user">5000</limit>
</busconfig>
END
    begin "$1" dbus-daemon --nofork --nopidfile --config-file="$work/$1/bus.conf"
    buses[$1]=$begun
    until_true [ -S "$work/$1/bus" ]
}

# in_house NAMESPACE COMMAND...: the words of a command in its house, in `housed`.
in_house() {
    housed=("$1" env "DBUS_SYSTEM_BUS_ADDRESS=unix:path=$work/$1/bus" "$PWD/house" "$work/$1" "$packages" "${@:2}")
}

# serve NAMESPACE NAME COMMAND...: starts a daemon, and waits for its name on the bus.
serve() {
    in_house "$1" "${@:3}"
    begin "${housed[@]}"
    daemons[$1]=$begun
    until_true busctl --address="$address" call org.freedesktop.DBus / org.freedesktop.DBus GetNameOwner s "$2"
}

# Without .network files it configures nothing, and reports links, carriers and addresses.
start_networkd() {
    make_house "$1"
    mkdir -p "$work/$1/etc/systemd/network"
    install -d -o systemd-network "$work/$1/run/systemd"{,/netif}
    serve "$1" org.freedesktop.network1 /lib/systemd/systemd-networkd
}

# It finds the addresses that the links have, and reports them as external connections.
start_nm() {
    make_house "$1"
    mkdir -p "$work/$1/etc/NetworkManager"
    cat >"$work/$1/etc/NetworkManager/NetworkManager.conf" <<'END'
[main]
plugins=keyfile
no-auto-default=*
dns=none
rc-manager=unmanaged
auth-polkit=false
[logging]
level=WARN
END
    serve "$1" org.freedesktop.NetworkManager NetworkManager --no-daemon
}

# It reports only links that it configures itself, so it configures the same addresses.
start_connman() {
    make_house "$1"
    mkdir -p "$work/$1"/{etc,var}/connman
    printf '[General]\nEnableOnlineCheck=false\nAllowHostnameUpdates=false\nUseGatewaysAsTimeservers=false\n' \
        >"$work/$1/etc/connman/main.conf"
    local i mac
    for i in 0 1 2 3 4 5; do
        mac=$(inside "$1" cat "/sys/class/net/v$i/address")
        printf '[service_v%s]\nType=ethernet\nMAC=%s\nIPv4=10.%s.0.2/%s/10.%s.0.1\nIPv6=off\n' \
            $i "$mac" $i "$([ $i = 5 ] && echo 255.255.0.0 || echo 255.255.255.0)" $i
    done >"$work/$1/var/connman/bench.config"
    serve "$1" net.connman connmand --nodaemon --nodnsproxy
}

start_floor() {
    begin "$1" "$work/floor" "$work/$1.sock"
    daemons[$1]=$begun
    until_true [ -S "$work/$1.sock" ]
}

# With a bus, as on most machines: it looks there for the managers that are compared.
start_connd() {
    make_house "$1"
    in_house "$1" "$bin/connd" --socket "$work/$1.sock" --log-level error
    begin "${housed[@]}"
    daemons[$1]=$begun
    ip netns exec "$1" "$bin/connctl" --socket "$work/$1.sock" wait online --timeout 30s
}

# These have no daemon: each program that follows the network asks the kernel itself.
start_gio() { follow "$(gio_line "$1")"; daemons[$1]=$begun; }
start_ip() { follow "$(ip_line "$1")"; daemons[$1]=$begun; }

# The commands that print the events of a namespace as lines.
gio_line() {
    echo "ip netns exec $1 env DBUS_SYSTEM_BUS_ADDRESS=unix:path=$work/none" \
        "LD_LIBRARY_PATH=$packages/usr/lib/$(cc -print-multiarch) $work/lines/gio"
}
# Its standard error has complaints about the links' other ends.
ip_line() { echo "ip netns exec $1 ip monitor link address route 2>/dev/null"; }
floor_line() { echo "$work/lines/socket $work/$1.sock"; }
bus_line() { echo "$work/lines/bus $2 unix:path=$work/$1/bus"; }  # NAMESPACE SENDER
connd_line() { echo "$bin/connctl --socket $work/$1.sock watch --json"; }
nmcli_line() {
    in_house "$1" nmcli monitor
    echo "ip netns exec ${housed[*]}"
}

# follow COMMAND: a subscriber whose output is not read. Sets `begun`.
follow() {
    bash -c "exec $1" </dev/null >/dev/null 2>>"$work/log" &
    begun=$!
    processes+=($begun)
}
