"""The parts of a world, drawn from a seed: uplinks with routers as strict as a provider's, and
connections over them.

    machine (M) --- uplink n --- router Rn (and Qn on the same LAN) --- server (S)

Rn and Qn forward packets from uplink n's own addresses, and drop all others: packets that leave by
the wrong link are lost. The server answers each uplink's addresses by Rn. A topology is data, so
that it can be saved and replayed.
"""

import ipaddress
import random

REMOTES = {4: [f"203.0.113.{n}" for n in range(1, 5)], 6: [f"2001:db8:f::{n}" for n in range(1, 5)]}
TUNNEL_END = "203.0.113.9"
# the machine's and the server's end
INNER = {4: ("172.31.0.2", "172.31.0.1"), 6: ("fd31::2", "fd31::1")}
PORTS = [7001, 7002]
MARK, UID = 7, 1000
FENCE = "198.51.100.77"  # a destination whose route only the fence changes
FENCE_TABLE, TABLES = 4999, 1000
NAMES = ["eth0", "wlan0", "wwan0", "eth1"]


class Uplink:
    def __init__(self, data):
        self.name, self.number, self.over = data["name"], data["number"], data["over"]
        self.has_second, self.metric = data["second"], data["metric"]
        self.router, self.other = f"R{self.number}", f"Q{self.number}"
        self.routers = [self.router] + [self.other] * self.has_second
        self.top = {"plain": self.name, "bridge": f"br{self.number}", "macvlan": f"mv{self.number}",
                    "bond": f"bond{self.number}"}[self.over]
        # Between `up` and the next loss of a Wi-Fi carrier connd waits (I10); other media have no
        # grace period.
        self.is_wifi = self.name.startswith("wlan")

    def address(self, family, host=2, net=0):
        if family == 4:
            return f"10.{self.number}.{net}.{host}"
        return f"2001:db8:{self.number}:{net}::{host}" if net else f"2001:db8:{self.number}::{host}"

    def gateway(self, family, router=None):
        return self.address(family, 3 if router == self.other else 1)

    def prefix(self, family):
        return f"10.{self.number}.0.0/16" if family == 4 else f"2001:db8:{self.number}::/48"

    def any_address(self, host):
        """An address of a block that a route makes local as a whole (AnyIP)."""
        return f"198.18.{self.number}.{host}"

    @property
    def any_prefix(self):
        return f"198.18.{self.number}.0/24"

    def owns(self, address):
        """Whether its provider forwards it."""
        address = ipaddress.ip_address(address)
        prefixes = [self.prefix(4), self.any_prefix, self.prefix(6)]
        return any(address in ipaddress.ip_network(prefix) for prefix in prefixes)

    def mac(self, host):
        return f"02:00:00:00:{self.number:02x}:{host:02x}"

    def addresses(self, family, verb="replace"):
        length = 24 if family == 4 else 64
        nodad = " nodad" if family == 6 and verb != "del" else ""
        return f"address {verb} {self.address(family)}/{length} dev {self.top}{nodad}"

    def default(self, family, verb="replace", metric=None, router=None, table=None):
        return (f"{six(family)}route {verb} default via {self.gateway(family, router)} dev {self.top}"
                + (f" table {table}" if table else f" metric {metric or self.metric}"))

    def configured(self):
        """What a network manager does when the link comes up."""
        return [self.addresses(4), self.addresses(6), self.default(4), self.default(6),
                self.default(4, table=TABLES + self.number), self.default(6, table=TABLES + self.number)]


def six(family):
    return "-6 " if family == 6 else ""


def subnet(address):
    """The common key of one subnet's addresses, whatever their prefix length."""
    address = ipaddress.ip_address(address)
    if address.version == 6 and address.ipv4_mapped:
        address = address.ipv4_mapped
    return str(ipaddress.ip_network((address, 24 if address.version == 4 else 64), strict=False))


def draw(chance, bonds=False):
    """A topology: uplinks, other parts, and the connections to keep. `bonds`: this kernel supports
    them.
    """
    names = NAMES[:2] + chance.sample(NAMES[2:], chance.randrange(3))
    uplinks = [
        {"name": name, "number": number, "over": chance.choices(["plain", "bridge", "macvlan"], [6, 3, 1])[0],
         "second": chance.random() < 0.35, "metric": 100 * number}
        for number, name in enumerate(names, 1)]
    # Drawn separately: a seed is the same world on a kernel without bonds, except for these.
    for uplink in uplinks if bonds else []:
        if random.Random(f"bond {uplink['name']} {chance.getstate()[1][0]}").random() < 0.25:
            uplink["over"] = "bond"
    topology = {
        "uplinks": uplinks, "hash_policy": chance.randrange(2), "tunnel": chance.random() < 0.4,
        "fill": chance.random() < 0.5}
    topology["connections"] = [draw_connection(chance, topology) for _ in range(chance.randrange(6, 10))]
    return topology


def draw_connection(chance, topology):
    """How a connection is bound, and where it goes; its replacement is the same."""
    family = chance.choice([4, 4, 6])
    uplink = Uplink(chance.choice(topology["uplinks"]))
    kinds = ["plain"] * 6 + ["source"] * 3 + ["device"] * 2 + ["mark", "uid", "local", "neighbour"]
    if family == 4:
        kinds += ["mapped", "mapped", "any"]
    if topology["tunnel"]:
        kinds += ["inner"] * 2
    kind = chance.choice(kinds)
    connection = {"kind": kind, "family": family, "remote": chance.choice(REMOTES[family]), "port": chance.choice(PORTS)}
    if kind == "source":
        connection["local"] = uplink.address(family)
    elif kind == "device":
        connection["device"] = uplink.top
    elif kind == "mark":
        connection["mark"] = MARK
    elif kind == "uid":
        connection["uid"] = UID
    elif kind == "local":
        # On the loopback link, or on that of a LAN behind this machine.
        connection["local"] = uplink.address(family, 2, chance.choice([8, 9]))
    elif kind == "any":
        connection["local"] = uplink.any_address(chance.randrange(1, 250))
    elif kind == "inner":
        connection["remote"] = INNER[family][1]
    elif kind == "neighbour":
        connection["remote"] = uplink.gateway(family)
    return connection


def settings(namespace):
    """Timers for a test: lost data is retransmitted within 20 ms at first, and every second at
    last.
    """
    keys = {
        "ipv4/tcp_rto_min_us": 20000, "ipv4/tcp_rto_max_ms": 1000, "ipv4/conf/all/rp_filter": 0,
        "ipv4/conf/default/rp_filter": 0, "ipv4/conf/all/send_redirects": 0, "ipv4/conf/default/send_redirects": 0,
        "ipv4/conf/all/accept_redirects": 0}
    for scope in ["all", "default"]:
        keys[f"ipv6/conf/{scope}/accept_dad"] = keys[f"ipv6/conf/{scope}/dad_transmits"] = 0
        keys[f"ipv6/conf/{scope}/accept_redirects"] = 0
    if namespace == "M":
        keys |= {"ipv4/conf/all/promote_secondaries": 1, "ipv4/conf/default/promote_secondaries": 1}
    elif namespace == "S":
        # The internet: packets that its end of a tunnel sends by a remembered way still arrive.
        keys |= {"ipv4/ip_forward": 1, "ipv4/conf/all/accept_local": 1, "ipv4/conf/default/accept_local": 1}
    else:
        keys |= {"ipv4/ip_forward": 1, "ipv6/conf/all/forwarding": 1, "ipv4/conf/default/arp_notify": 1,
                 "ipv6/conf/default/ndisc_notify": 1}
    return [["sysctl", namespace, key, value] for key, value in keys.items()]


def setup(topology):
    """The operations that set it up."""
    uplinks = [Uplink(data) for data in topology["uplinks"]]
    namespaces = ["M", "S"] + [router for uplink in uplinks for router in uplink.routers]
    operations = [["namespace", namespace] for namespace in namespaces]
    for namespace in namespaces:
        operations += settings(namespace) + [[namespace, "link set lo up"]]
    operations.append(["sysctl", "M", "ipv4/fib_multipath_hash_policy", topology["hash_policy"]])
    operations.append(["sysctl", "M", "ipv6/fib_multipath_hash_policy", topology["hash_policy"]])
    machine = lambda *lines: operations.extend(["M", line] for line in lines)
    server = lambda *lines: operations.extend(["S", line] for line in lines)
    server(*[f"address add {remote}/32 dev lo" for remote in REMOTES[4] + [TUNNEL_END]],
           *[f"address add {remote}/128 dev lo" for remote in REMOTES[6]])
    machine("link add fence index 901 type veth peer name fence index 902 netns {S}", "link set fence up",
            "address add 10.249.0.2/16 dev fence", f"rule add to {FENCE} lookup {FENCE_TABLE} priority 1")
    server("link set fence up")
    machine("link add lan0 index 911 type veth peer name lan0p index 912", "link set lan0 up", "link set lan0p up")
    for uplink in uplinks:
        for router in uplink.routers:
            operations += router_setup(uplink, router)
        operations += uplink_setup(uplink)
        machine(f"address add {uplink.address(4, 2, 9)}/32 dev lo", f"address add {uplink.address(6, 2, 9)}/128 dev lo nodad",
                f"address add {uplink.address(4, 2, 8)}/24 dev lan0",
                f"address add {uplink.address(6, 2, 8)}/64 dev lan0 nodad",
                f"route add local {uplink.any_prefix} dev lo")
    if topology["tunnel"]:
        (mine, its), (mine6, its6) = INNER[4], INNER[6]
        for namespace, ends, own, own6, other, other6, mac, remote_mac in [
                ("M", f"remote {TUNNEL_END}", mine, mine6, its, its6, "02:00:00:00:f0:02", "02:00:00:00:f0:01"),
                ("S", f"local {TUNNEL_END}", its, its6, mine, mine6, "02:00:00:00:f0:01", "02:00:00:00:f0:02")]:
            # The server's end learns the machine's location from its packets.
            operations += [[namespace, line] for line in [
                f"link add vx0 index 950 address {mac} mtu 1300 type vxlan id 42 {ends} dstport 4789", "link set vx0 up",
                f"address add {own}/24 dev vx0", f"address add {own6}/64 dev vx0 nodad",
                f"neigh replace {other} lladdr {remote_mac} dev vx0 nud permanent",
                f"neigh replace {other6} lladdr {remote_mac} dev vx0 nud permanent"]]
    # For each link, because a namespace has no defaults for these.
    quick = {"retrans_time_ms": 50, "base_reachable_time_ms": 500, "delay_first_probe_time": 0, "locktime": 0}
    return operations + [["neighbours", namespace, quick] for namespace in namespaces]


def router_setup(uplink, router):
    n, is_first = uplink.number, router == uplink.router
    host, out = (1, 250) if is_first else (3, 251)
    far, far6 = f"10.{out}.{n}.2", f"2001:db8:{out}:{n}::2"
    port = f"u{n}" if is_first else f"v{n}"
    index = 2001 + 40 * n + 20 * (not is_first)
    lines = [
        f"link add {port} index {index} type veth peer name {port} index {index + 1} netns {{S}}", f"link set {port} up",
        f"address add 10.{out}.{n}.1/30 dev {port}", f"address add 2001:db8:{out}:{n}::1/64 dev {port} nodad",
        f"link add lan index {index + 2} address {uplink.mac(host)} type bridge forward_delay 0 stp_state 0",
        "link set lan addrgenmode none",
        "link set lan up", f"address add {uplink.address(4, host)}/24 dev lan",
        f"address add {uplink.address(4, host, 1)}/24 dev lan",
        f"address add {uplink.address(6, host)}/64 dev lan nodad", f"address add {uplink.address(6, host, 1)}/64 dev lan nodad",
        f"address add fe80::{host}/64 dev lan nodad", f"route add default via {far} dev {port}",
        f"-6 route add default via {far6} dev {port}",
        # A rule before that of the local table makes a router silent.
        "-6 rule add lookup local priority 1", "-6 rule del priority 0"]
    for prefix in [uplink.prefix(4), uplink.any_prefix]:
        lines.append(f"rule add iif lan from {prefix} lookup main priority 10")
    lines += [f"-6 rule add iif lan from {prefix} lookup main priority 10" for prefix in [uplink.prefix(6), "fe80::/10"]]
    lines += ["rule add iif lan blackhole priority 20", "-6 rule add iif lan blackhole priority 20"]
    operations = [[router, line] for line in lines]
    server = [f"link set {port} up", f"address add {far}/30 dev {port}", f"address add {far6}/64 dev {port} nodad"]
    if is_first:
        # Permanent, so that the way to these does not depend on the machine's other address.
        for family, host in [(4, uplink.address(4)), (6, uplink.address(6))]:
            operations.append([router, f"neigh replace {host} lladdr {uplink.mac(2)} dev lan nud permanent"])
            operations += [[router, f"{six(family)}route add {net} via {host} dev lan"] for net in (
                [f"10.{n}.8.0/24", f"10.{n}.9.0/24", uplink.any_prefix] if family == 4 else
                [f"2001:db8:{n}:8::/64", f"2001:db8:{n}:9::/64"])]
        server += [f"route add {uplink.prefix(4)} via 10.{out}.{n}.1", f"route add {uplink.any_prefix} via 10.{out}.{n}.1",
                   f"-6 route add {uplink.prefix(6)} via 2001:db8:{out}:{n}::1"]
    else:
        # Both are on one LAN: this one's port is a veth to the first one's bridge.
        peer = f"peer name seg index {index + 5} netns {{{uplink.router}}}"
        operations += [[router, f"link add seg index {index + 4} type veth {peer}"],
                       [router, "link set seg master lan up"], [uplink.router, "link set seg master lan up"]]
    return operations + [["S", line] for line in server]


def uplink_setup(uplink):
    name, top, index = uplink.name, uplink.top, 1000 + 10 * uplink.number
    lower = "" if uplink.over == "bridge" else f"address {uplink.mac(2)} "
    operations = [
        ["M", f"link add {name} index {index} {lower}type veth peer name port index {index + 1001} netns {{{uplink.router}}}"],
        [uplink.router, "link set port master lan up"]]
    lines = []
    if uplink.over == "bridge":
        lines = [
            f"link add {top} index {index + 2} address {uplink.mac(2)} type bridge forward_delay 0 stp_state 0",
            f"link set {name} master {top} up",
            # A second port without traffic, and a guest's port.
            f"link add more{uplink.number} index {index + 4} type veth peer name morep{uplink.number} index {index + 5}",
            f"link add tap{uplink.number} index {index + 6} type veth peer name tapp{uplink.number} index {index + 7}",
            *[f"link set {end}{uplink.number} {what}" for end, what in [
                ("more", f"master {top} up"), ("tap", f"master {top} up"), ("morep", "up"), ("tapp", "up")]]]
    elif uplink.over == "bond":
        # Two ports to one router: the loss of one has no effect.
        second = f"{name}b"
        operations += [
            ["M", f"link add {second} index {index + 4} type veth peer name portb index {index + 1005} netns {{{uplink.router}}}"],
            [uplink.router, "link set portb master lan up"]]
        lines = [f"link add {top} index {index + 2} address {uplink.mac(2)} type bond mode active-backup miimon 20",
                 f"link set {name} master {top}", f"link set {second} master {top}"]
    elif uplink.over == "macvlan":
        # Otherwise the link below answers for the address above it, and the router's packets there
        # reach no socket bound to that address.
        operations.append(["sysctl", "M", f"ipv4/conf/{name}/arp_ignore", 1])
        lines = [f"link set {name} address 02:00:00:00:{uplink.number:02x}:aa up",
                 f"link add {top} index {index + 2} link {name} address {uplink.mac(2)} type macvlan mode bridge"]
    lines += [f"link set {top} up", *uplink.configured()]
    return operations + [["M", line] for line in lines]
