"""Steps, drawn beforehand: a list of commands each, so that a script can be saved, replayed, and
shortened by removing steps.

Earlier steps influence which ones are drawn, but no step needs another. When steps are removed, the
kernel refuses many others, which then change nothing.
"""

import random

import netfilter
from losses import losing
from topology import MARK, PORTS, REMOTES, TABLES, UID, Uplink, draw, six

STEPS = 50  # of one world


def script(seed, count=STEPS, bonds=False):
    chance = random.Random(seed)
    topology = draw(chance, bonds)
    # Drawn last: the rest of a seed's world does not depend on it.
    after, connections = netfilter.draw(random.Random(f"netfilter {seed}"), topology["uplinks"])
    topology |= after
    topology["connections"] += connections
    plan = Plan(chance, topology)
    steps = [plan.step() for _ in range(count)]
    return {"seed": seed, "topology": topology, "steps": steps}


def machine(*lines):
    return [["M", line] for line in lines]


class Plan:
    def __init__(self, chance, topology):
        self.chance, self.topology = chance, topology
        self.uplinks = [Uplink(data) for data in topology["uplinks"]]
        self.undo = []  # actions to be undone later: (name, operations)
        self.births = 0
        self.broken = {}  # broken uplinks, and how they are repaired

    def step(self):
        # A world in which nothing works shows little.
        if self.broken and (len(self.broken) > len(self.uplinks) - 1 or self.chance.random() < 0.3):
            return self.mend()
        if self.undo and (len(self.undo) > 6 or self.chance.random() < 0.3):
            name, operations = self.undo.pop(self.chance.randrange(len(self.undo)))
            return {"name": f"undo {name}", "do": operations}
        while True:
            name = self.chance.choices(list(STEPS_BY_WEIGHT), list(STEPS_BY_WEIGHT.values()))[0]
            step = getattr(self, name)()
            if step:
                return {"name": name.replace("_", " "), **step} if isinstance(step, dict) else {
                    "name": name.replace("_", " "), "do": step}

    def uplink(self, which=lambda _: True):
        able = [uplink for uplink in self.uplinks if which(uplink) and uplink.name not in self.broken]
        return self.chance.choice(able) if able else None

    def family(self):
        return self.chance.choice([4, 4, 6])

    def later(self, name, *lines):
        self.undo.append((name, machine(*lines)))

    # Losses and their ends

    def mend(self):
        name = self.chance.choice(list(self.broken))
        return {"name": f"mend {name}", "do": self.broken.pop(name)}

    def carrier(self):
        link = self.uplink()
        if not link:
            return None
        self.broken[link.name] = [[link.router, "link set port up"]] + machine(*link.configured())
        return [[link.router, "link set port down"]]

    def carrier_bounce(self):
        """A roam, or a touched cable."""
        link = self.uplink()
        return link and [[link.router, "link set port down"], ["pause", self.chance.choice([0, 20, 130, 400])],
                         [link.router, "link set port up"]]

    def link_down(self):
        link = self.uplink()
        if not link:
            return None
        name = self.chance.choice([link.name, link.top])
        self.broken[link.name] = machine(f"link set {name} up", *link.configured())
        return machine(f"link set {name} down")

    def link_bounce(self):
        link = self.uplink()
        return link and machine(f"link set {link.top} down", f"link set {link.top} up", *link.configured())

    def address(self):
        link, family = self.uplink(), self.family()
        if not link:
            return None
        self.undo.append(("address", machine(*link.configured())))
        return machine(link.addresses(family, "del"))

    def address_bounce(self):
        """A network manager, a bridge or a switch takes the link over: the same address returns
        within the grace period.
        """
        link, family = self.uplink(), self.family()
        return link and machine(link.addresses(family, "del")) + [["pause", self.chance.choice([0, 50, 150, 300])]] + machine(
            *link.configured())

    def route(self):
        link, family = self.uplink(), self.family()
        if not link:
            return None
        self.later("route", link.default(family))
        return machine(link.default(family, "del"))

    def route_bounce(self):
        """Like the renewal of a DHCP lease: within the grace period."""
        link, family = self.uplink(), self.family()
        return link and machine(link.default(family, "del")) + [["pause", self.chance.choice([0, 2, 50, 300])]] + machine(
            link.default(family))

    # Other preferences

    def metric(self):
        """Another link's default route is preferred, or the first one's again."""
        link, family = self.uplink(), self.family()
        if not link:
            return None
        metric = self.chance.choice([20, 30, 40])
        self.later("metric", link.default(family, "del", metric))
        return machine(link.default(family, metric=metric))

    def other_router(self):
        """The default route moves to another router of the same LAN."""
        link, family = self.uplink(lambda link: link.has_second), self.family()
        if not link:
            return None
        self.later("other router", link.default(family))
        return machine(link.default(family, router=link.other))

    def host_route(self):
        link, family = self.uplink(), self.family()
        if not link:
            return None
        gateway = link.gateway(family, self.chance.choice(link.routers))
        words = f"{six(family)}route {{}} {self.chance.choice(REMOTES[family])} via {gateway} dev {link.top} metric 7"
        self.later("host route", words.format("del"))
        return machine(words.format("add"))

    def rule(self):
        link, family = self.uplink(), self.family()
        if not link:
            return None
        selectors = [
            f"from {link.address(family)}", f"from {link.address(family)}", f"uidrange {UID}-{UID}", f"fwmark {MARK}",
            "ipproto tcp", f"ipproto tcp dport {self.chance.choice(PORTS)}", "ipproto udp", "sport 32768-46000",
            f"dport {PORTS[0]}-{PORTS[-1]}", f"to {self.chance.choice(REMOTES[family])}"]
        words = (f"{six(family)}rule {{}} {self.chance.choice(selectors)} lookup {TABLES + link.number} "
                 f"priority {100 + self.chance.randrange(100)}")
        self.later("rule", words.format("del"))
        return machine(words.format("add"))

    def own_rules(self):
        """Each address gets its own link, as on multihomed machines; then the default routes may
        come and go.
        """
        lines = [f"{six(family)}rule {{}} from {link.prefix(family)} lookup {TABLES + link.number} priority 90"
                 for link in self.uplinks for family in (4, 6)]
        self.later("own rules", *[line.format("del") for line in lines])
        return machine(*[line.format("add") for line in lines])

    def several(self):
        """A default route over several links."""
        family = self.family()
        links = [link for link in self.uplinks if link.name not in self.broken]
        if len(links) < 2:
            return None
        hops = " ".join(f"nexthop via {link.gateway(family)} dev {link.top}" for link in self.chance.sample(links, 2))
        self.later("several", f"{six(family)}route del default metric 6")
        return machine(f"{six(family)}route replace default metric 6 {hops}")

    def nexthops(self):
        """The same with objects. Without its object, a route is gone without a message."""
        family = self.family()
        links = [link for link in self.uplinks if link.name not in self.broken]
        if len(links) < 2:
            return None
        base = 10 * family
        one, other = self.chance.sample(links, 2)
        lines = [f"nexthop replace id {base + number} via {link.gateway(family)} dev {link.top}"
                 for number, link in enumerate([one, other], 1)]
        group = self.chance.choice([f"{base + 1}", f"{base + 1}/{base + 2}"])
        self.later("nexthops", f"nexthop del id {base}")
        if self.chance.random() < 0.5:
            self.later("nexthop", f"nexthop del id {base + self.chance.choice([1, 2])}")
        return machine(*lines, f"nexthop replace id {base} group {group}",
                       f"{six(family)}route replace default nhid {base} metric 5")

    def more_addresses(self):
        """More addresses: of the same subnet, of another one, for one host (DHCPv6) or temporary;
        sometimes preferred.
        """
        link, family = self.uplink(), self.family()
        if not link:
            return None
        length = self.chance.choice([24, 32] if family == 4 else [64, 64, 128])
        address = link.address(family, self.chance.randrange(20, 200), self.chance.choice([0, 0, 1]))
        words = f"address {{}} {address}/{length} dev {link.top}"
        self.later("more addresses", words.format("del"))
        nodad = " nodad" if family == 6 else ""
        lines = [words.format("add") + nodad]
        if family == 6 and self.chance.random() < 0.4:
            lines.append(f"address change {link.address(6)}/64 dev {link.top} preferred_lft 0 valid_lft 3000")
            self.undo.append(("deprecation", machine(
                f"address change {link.address(6)}/64 dev {link.top} preferred_lft forever valid_lft forever")))
        elif family == 4 and self.chance.random() < 0.4:
            lines.append(f"route replace default via {link.gateway(4)} dev {link.top} metric {link.metric} src {address}")
            self.later("source of the default", link.default(4))
        return machine(*lines)

    def source_local(self):
        """Removes the source of some connections: an address on lo or of the LAN, or a route that
        makes many addresses local.
        """
        link = self.uplink()
        if not link:
            return None
        add, delete = self.chance.choice([
            (f"address add {link.address(4, 2, 9)}/32 dev lo", f"address del {link.address(4, 2, 9)}/32 dev lo"),
            (f"address add {link.address(4, 2, 8)}/24 dev lan0", f"address del {link.address(4, 2, 8)}/24 dev lan0"),
            (f"route add local {link.any_prefix} dev lo", f"route del local {link.any_prefix} dev lo")])
        self.later("source local", add)
        return machine(delete)

    def obstacle(self):
        family = self.family()
        what = self.chance.choice(["unreachable", "prohibit", "blackhole"])
        where = self.chance.choice(["default", self.chance.choice(REMOTES[family])])
        self.later("obstacle", f"{six(family)}route del {what} {where} metric 2")
        return machine(f"{six(family)}route add {what} {where} metric 2")

    # Routers

    def failover(self):
        """Another machine, with another MAC address, takes over the gateway's address; the link
        stays up.
        """
        link = self.uplink()
        if not link:
            return None
        self.births += 1
        address = f"02:00:00:01:{link.number:02x}:{self.births % 256:02x}"
        return [[link.router, f"link set lan address {address}"], ["pause", 30]]

    def swap(self):
        """The cable's other end moves to another network, like a switch port: another router has
        the same address.
        """
        link = self.uplink()
        if not link:
            return None
        self.births += 1
        address = f"02:00:00:01:{link.number:02x}:{self.births % 256:02x}"
        return {"swapped": True, "do": [
            [link.router, "link set port down"], ["pause", self.chance.choice([20, 130, 400])],
            *[["nft", router, "forget"] for router in link.routers], [link.router, f"link set lan address {address}"],
            [link.router, "link set port up"]]}

    def loss(self):
        """An uplink loses packets at random and silently, while other things change."""
        link = self.uplink()
        if not link:
            return None
        lose, end = losing(self.chance, link, [2, 3, 10, 30, 60, 100])
        self.undo.append(("loss", end))
        return lose

    def limp(self):
        """An uplink loses packets while nothing else changes. The first pause lets connd examine
        the last change (E2); the second one is longer than three timeouts.
        """
        link = self.uplink()
        if not link:
            return None
        lose, end = losing(self.chance, link, [10, 30, 60, 100, 100])
        return [["pause", 1800], *lose, ["pause", self.chance.choice([1700, 2500, 4000])], *end]

    def advertise(self):
        """Routers advertise themselves, one or both of a LAN, with a prefix or without."""
        link = self.uplink(lambda link: link.over == "plain")
        if not link:
            return None
        prefix = self.chance.choice([None, f"2001:db8:{link.number}::", f"2001:db8:{link.number}:1::"])
        does = [["ra", router, "lan", 1800, 0, prefix, 1800] for router in link.routers]
        self.undo.append(("advertise", [["ra", router, "lan", 0, 0, None, 0] for router in link.routers]))
        return does + [["pause", 10]]

    def silence(self):
        """One of two IPv6 routers falls silent, and the kernel finds out by itself."""
        link = self.uplink(lambda link: link.has_second and link.over == "plain")
        if not link:
            return None
        does = [["ra", router, "lan", 1800, 0, None, 0] for router in link.routers]
        silent = [[link.other, "-6 rule add iif lan blackhole priority 0"], ["pause", 700]]
        self.undo.append(("silence", [[link.other, "-6 rule del iif lan blackhole priority 0"]] + [
            ["ra", router, "lan", 0, 0, None, 0] for router in link.routers]))
        # The preferred default route is the advertised one.
        return machine(link.default(6, "del")) + does + silent

    # Events that leave the traffic alone

    def port(self):
        """Ports of a bridge that the traffic does not use."""
        link = self.uplink(lambda link: link.over == "bridge")
        if not link:
            return None
        end = f"{self.chance.choice(['morep', 'tapp'])}{link.number}"
        self.later("port", f"link set {end} up")
        return machine(f"link set {end} down")

    def uplink_port(self):
        """The uplink's port of a bridge, while a guest's port keeps the bridge's carrier."""
        link = self.uplink(lambda link: link.over == "bridge")
        if not link:
            return None
        self.broken[link.name] = [[link.router, "link set port up"]]
        return [[link.router, "link set port down"]]

    def containers(self):
        self.births += 1
        name = f"c{self.births}"
        return machine(f"link add {name} type veth peer name {name}p", f"link set {name} up", f"link set {name}p up",
                       f"address add 172.17.{self.births % 250}.1/24 dev {name}", f"link del {name}")

    def linkdown(self):
        link = self.uplink()
        if not link:
            return None
        key = f"ipv4/conf/{link.top}/ignore_routes_with_linkdown"
        self.undo.append(("linkdown", [["sysctl", "M", key, 0]]))
        return [["sysctl", "M", key, 1]]


STEPS_BY_WEIGHT = {
    "carrier": 5, "carrier_bounce": 2, "link_down": 4, "link_bounce": 2, "address": 2, "address_bounce": 2, "route": 2,
    "route_bounce": 4, "metric": 6, "other_router": 5, "host_route": 5, "rule": 9, "own_rules": 3, "several": 5,
    "nexthops": 4, "more_addresses": 7, "source_local": 2, "obstacle": 1, "failover": 4, "swap": 2, "advertise": 3, "silence": 1,
    "loss": 4, "limp": 4, "port": 6, "uplink_port": 3, "containers": 4, "linkdown": 2,
}
