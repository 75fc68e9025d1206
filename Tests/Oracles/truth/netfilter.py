"""The effects of netfilter on packets after the route lookup, which therefore does not describe
where they go.

    marks    mwan3, split tunnels: a mark in the output hook moves packets to another uplink
    service  a cluster: the service's address stands for a pod in a namespace behind a bridge
    proxy    connections to a port are redirected to a local proxy
    routers  lose packets at random, or are replaced by others without connection state

A world's seed decides on the first three, and on how strict its reverse-path filter is. Only the
traffic shows where these connections go.
"""

from topology import PORTS, REMOTES, TABLES, Uplink, six

SERVICE, POD = "10.96.0.1", "10.244.0.2"
STEERED, PROXIED, PROXY = 7003, 7004, 7009  # ports
MARKED = 32
KINDS = ["steered", "proxied", "service"]  # kinds of connections that no lookup describes


def draw(chance, uplinks):
    """Returns this world's share of it, with the connections that show it."""
    steered = chance.choice(uplinks)["number"] if chance.random() < 0.4 else None
    # A strict reverse-path filter drops the answers to packets that a mark moves elsewhere.
    topology = {
        "steered": steered, "service": chance.random() < 0.4, "proxy": chance.random() < 0.3,
        "rp_filter": chance.choice([0, 2] if steered else [0, 1, 1, 2])}
    connections = []
    for _ in range(2):
        family = chance.choice([4, 4, 6])
        remote = chance.choice(REMOTES[family])
        if steered:
            connections.append({"kind": "steered", "family": family, "remote": remote, "port": STEERED})
        if topology["proxy"]:
            connections.append({"kind": "proxied", "family": family, "remote": remote, "port": PROXIED})
    if topology["rp_filter"]:
        # A connection bound to a link notices that another link is preferred.
        uplink = Uplink(chance.choice(uplinks))
        connections.append({"kind": "device", "family": 4, "remote": REMOTES[4][0], "port": PORTS[0], "device": uplink.top})
    if topology["service"]:
        connections.append({"kind": "service", "family": 4, "remote": SERVICE, "port": PORTS[0]})
    return topology, connections


def setup(topology, uplinks):
    operations = [["sysctl", "M", "ipv4/conf/all/rp_filter", topology["rp_filter"]]]
    for uplink in uplinks:
        if uplink.number == topology["steered"]:
            operations.append(["nft", "M", "marks", {"port": STEERED, "mark": MARKED, "link": uplink.top}])
            operations += [["M", f"{six(family)}rule add fwmark {MARKED} lookup {TABLES + uplink.number} priority 80"]
                           for family in (4, 6)]
    if topology["service"]:
        operations.append(["namespace", "P"])
        operations += [["M", line] for line in [
            "link add cni0 index 921 type bridge forward_delay 0", "link set cni0 up", "address add 10.244.0.1/24 dev cni0",
            "link add pod index 922 type veth peer name eth0 index 923 netns {P}", "link set pod master cni0 up"]]
        operations += [["P", line] for line in [
            "link set lo up", "link set eth0 up", f"address add {POD}/24 dev eth0", "route add default via 10.244.0.1"]]
        operations.append(["nft", "M", "translation", {"name": "service", "rule": f"ip daddr {SERVICE} dnat ip to {POD}"}])
    if topology["proxy"]:
        operations.append(["nft", "M", "translation", {"name": "proxy", "rule": f"tcp dport {PROXIED} redirect to :{PROXY}"}])
    return operations


# By name, so that scripts and findings stay short.
RULES = {
    "marks": """
        table inet marks {{
            chain output {{
                type route hook output priority -150
                tcp dport {port} meta mark set {mark}
            }}
            chain postrouting {{
                type nat hook postrouting priority 100
                meta mark {mark} oifname "{link}" masquerade
            }}
        }}
        """,
    "translation": """
        table inet {name} {{
            chain output {{
                type nat hook output priority -100
                {rule}
            }}
        }}
        """,
    # A router that replaced another one: it knows none of the existing connections.
    "forget": """
        table inet remembering
        delete table inet remembering
        table inet remembering {{
            set begun {{
                type inet_service
                flags dynamic
            }}
            chain forward {{
                type filter hook forward priority 0
                iifname "lan" tcp flags & (syn | ack) == syn add @begun {{ tcp sport }}
                iifname "lan" meta l4proto tcp tcp sport != @begun drop
            }}
        }}
        """,
    # Silently: no ICMP message, and the neighbours still answer. `kept` percent of the packets are
    # forwarded.
    "lose": """
        table inet loss
        delete table inet loss
        table inet loss {{
            chain forward {{
                type filter hook forward priority 1
                {which} numgen random mod 100 >= {kept} drop
            }}
        }}
        """,
    "lose nothing": "delete table inet loss",
}
