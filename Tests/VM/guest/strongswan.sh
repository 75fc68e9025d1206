#!/bin/bash
# connd and IPsec with strongSwan on a laptop (K6, I5):
# no link of its own, an address assigned by the peer, and MOBIKE, which moves the tunnel between
# uplinks (RFC 4555). connd's reports about a connection inside are compared with its bytes.
cd "$(dirname "$(readlink -f "$0")")" || exit
. ./tap.sh
. ./connection.sh
. ./uplinks.sh
check "boot → connd.service is active" within 120 is active systemctl is-active connd.service
check "reload with eth0 as wired, wwan0 as cellular → succeeds" configure <<<'links: [{match: eth0, medium: wired}, {match: wwan0, medium: cellular}]'
check "the default route uses the cable → connd reports wired" connctl wait wired --timeout 2m

# charon NAME [COMMAND...]: starts charon, by COMMAND if there is one, for example in a namespace.
charon() {
    local name=$1
    shift
    cat >"/run/$name.strongswan.conf" <<CONF
charon-systemd {
    load_modular = yes
    plugins {
        include /etc/strongswan.d/charon/*.conf
        vici { socket = unix:///run/$name.vici }
    }
    retransmit_timeout = 1
    retransmit_base = 1
}
CONF
    systemd-run --quiet --unit="charon-$name" --setenv=STRONGSWAN_CONF="/run/$name.strongswan.conf" "$@" charon-systemd
    within 60 test -S "/run/$name.vici"
}
swan() {
    local name=$1
    shift
    swanctl "$@" --uri "unix:///run/$name.vici" 2>&1 | grep -v 'failed to load'
    return "${PIPESTATUS[0]}"
}
cat >/run/there.conf <<'CONF'
connections {
    laptops {
        local_addrs = 203.0.113.1
        pools = laptops
        proposals = aes128-sha256-x25519
        local { auth = psk
            id = there }
        remote { auth = psk
            id = here }
        children { all { local_ts = 0.0.0.0/0
            esp_proposals = aes128gcm16 } }
    }
}
pools { laptops { addrs = 10.6.0.2/32 } }
secrets { ike { secret = "no secret" } }
CONF
cat >/run/here.conf <<'CONF'
connections {
    office {
        remote_addrs = 203.0.113.1
        vips = 0.0.0.0
        proposals = aes128-sha256-x25519
        local { auth = psk
            id = here }
        remote { auth = psk
            id = there }
        children { all { remote_ts = 0.0.0.0/0
            esp_proposals = aes128gcm16 } }
    }
}
secrets { ike { secret = "no secret" } }
CONF
check "starting the gateway's charon → succeeds" charon there ip netns exec net
check "starting the laptop's charon → succeeds" charon here
for name in there here; do check "swanctl --load-all for charon $name → succeeds" swan "$name" --load-all --file "/run/$name.conf"; done
check "the laptop initiates the IPsec tunnel → established" swan here --initiate --child all --timeout 60
check "K6 an IPsec tunnel without a link of its own → the default path uses eth0" within 60 chain eth0
call 10.6.0.2
check "the connection is inside the tunnel → the gateway's IPsec states count its bytes" told <(ip -s -n net xfrm state list) '[1-9][0-9]*\(bytes\)'

# spared: whether connd has not destroyed the connection. It may drain it, because the tunnel takes
# some tenths of a second to move.
spared() { untold /run/guard '"severity": ?"destroy"'; }
uplink down
check "I5 the cable is pulled → the connection still echoes over the modem" echoes
check "K6 the cable is pulled → the default path uses wwan0" within 60 chain wwan0
check "the cable is pulled → the tunnel's address has moved to wwan0" within 60 told <(ip -br address show wwan0) 10.6.0.2
check "I2 I0 the tunnel has moved to the modem → connd does not destroy the connection" spared
uplink up
check "I5 the cable is plugged in → the connection still echoes" echoes
check "I3 I0 the cable is plugged in → connd does not destroy the connection" spared
# The tunnel stays on the modem as long as that works, and fails with it.
ip link set wwan0 down
check "I5 the modem is down → the connection still echoes over the cable" echoes
check "K6 the modem is down → the default path uses eth0" within 60 chain eth0
check "I2 I0 the tunnel has moved to the cable → connd does not destroy the connection" spared
check "the laptop terminates the IPsec tunnel → succeeds" swan here --terminate --ike office
check "I1 the tunnel's address is removed → connd destroys the connection as sourceAddressLost" within 60 told /run/guard '"reason": ?"sourceAddressLost", ?"severity": ?"destroy"'
check "connd has destroyed the connection → connctl guard exits" within 60 over

finish connd.service charon-here.service charon-there.service
