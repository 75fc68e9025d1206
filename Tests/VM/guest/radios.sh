# Sourced by the Wi-Fi scenarios: the radios are software (mac80211_hwsim), everything else is the
# kernel's usual code. wlan0 is this machine's.

common="driver=nl80211 hw_mode=g"
# The network "home": its access points share a bridge.
home="$common ssid=home bridge=br0 wpa=2 wpa_key_mgmt=WPA-PSK rsn_pairwise=CCMP wpa_passphrase=correct-horse"

phy() { cat "/sys/class/net/$1/phy80211/name"; }
bssid() { ip -n "$1" -o link show "$2" | sed 's/.*ether \([^ ]*\).*/\1/'; }

# beyond NAMESPACE:RADIO...: creates wlan0 and these radios, and moves each of these into its
# namespace.
beyond() {
    local where network radio
    check "loading mac80211_hwsim → succeeds" modprobe mac80211_hwsim radios=$(($# + 1))
    check "mac80211_hwsim is loaded → every radio has an interface" within 30 test -e "/sys/class/net/wlan$#"
    for where; do
        network=${where%:*} radio=${where#*:}
        [ -e "/run/netns/$network" ] || { ip netns add "$network"; ip -n "$network" link set lo up; }
        iw phy "$(phy "$radio")" set netns name "$network"
    done
}

# bridged NAMESPACE: creates the bridge of one network's access points there, with the router
# 10.0.1.1.
bridged() {
    ip -n "$1" link add br0 type bridge
    ip -n "$1" link set br0 up
    ip -n "$1" address add 10.0.1.1/24 dev br0
}

# access_point NAMESPACE NAME: starts hostapd with /run/NAME.conf.
access_point() { systemd-run --quiet --unit="$2" ip netns exec "$1" hostapd "/run/$2.conf"; }

# lease NETWORK [LINK]: configures the address NETWORK.2 and a default route, as a DHCP client does.
lease() {
    local link=${2:-wlan0}
    ip address flush dev "$link" scope global
    ip address add "$1.2/24" dev "$link"
    ip route replace default via "$1.1" dev "$link"
}

# listed WORD...: whether connctl links lists wlan0 with these words.
listed() { lists wlan0 "$@"; }

# networks WORD...: whether connctl networks lists the current network with these words.
networks() {
    local network word
    network=$(connctl networks --json | grep '"current": *true')
    for word; do grep -qF -- "$word" <<<"$network" || { echo "$network"; return 1; }; done
}
