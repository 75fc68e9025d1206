"""A machine with four links to the world, in its own network namespaces, and its random events.

The changes depend on the seed alone: nothing here depends on the kernel's answers. Many are
refused, like those of a careless administrator.
"""

import subprocess

MARK = "198.51.100.77"  # a destination whose route only `mark` changes
MARK_TABLE, RULES_FROM, TABLES_FROM = 4999, 100, 1000
UPLINKS = ["eth0", "eth1", "wlan0", "wwan0"]
MEDIA = """links:
  - {match: "eth*", medium: wired}
  - {match: "wlan*", medium: wifi}
  - {match: "wwan*", medium: cellular}
"""
PROBES = {4: ["17.0.0.1", "98.128.0.1", "193.0.0.1"], 6: ["2001:500::1", "2620::1", "2a00:1::1"]}
DEFAULT = {4: "default", 6: "-6 default"}


class Uplink:
    def __init__(self, name, number):
        self.name, self.number = name, number
        self.address = {4: f"10.{number}.0.2/24", 6: f"2001:db8:{number}::2/64"}
        self.gateway = {4: f"10.{number}.0.1", 6: f"2001:db8:{number}::1"}
        self.metric = 100 + 100 * number
        self.up = self.carrier = True
        self.router = 0

    def default(self, family, verb="replace", metric=None):
        inet = "-6 " if family == 6 else ""
        return (f"{inet}route {verb} default via {self.gateway[family]} dev {self.name} "
                f"metric {metric or self.metric}")


class Network:
    def __init__(self, name, chance):
        self.name, self.world, self.chance = name, f"{name}-world", chance
        self.made = []
        self.count = self.marks = self.flips = self.births = 0
        self.last = []  # changes, for debugging
        self.uplinks = [Uplink(link, number) for number, link in enumerate(UPLINKS)]
        self.extra, self.rules, self.addresses, self.obstacles = [], [], [], []
        self.nexthop = None
        self.kinds = []

    # The namespaces

    def make(self):
        for namespace in [self.name, self.world]:
            self.made.append(namespace)
            subprocess.run(["ip", "netns", "add", namespace], check=True)
            self.ip("link set lo up", namespace=namespace)
        for link in self.uplinks:
            self.plug(link)
        self.ip(f"link add mark type veth peer name mark netns {self.world}", "link set mark up",
                "address add 10.250.0.2/16 dev mark",
                f"rule add to {MARK} lookup {MARK_TABLE} priority 1")
        self.ip("link set mark up", namespace=self.world)
        self.kinds = [kind for kind in [
            "dummy", "ifb", "bridge", "macvlan link eth0", "vlan link eth0", "vxlan", "ipip", "gre", "sit",
            "wireguard", "tun",
        ] if self.is_known(kind)]
        self.count = 0

    def remove(self):
        for namespace in self.made:
            subprocess.run(["ip", "netns", "del", namespace], stderr=subprocess.DEVNULL)

    def ip(self, *lines, namespace=None):
        """Makes changes; returns when they are made, and whether all succeeded."""
        self.count += len(lines)
        namespace = namespace or self.name
        done = subprocess.run(
            ["ip", "-netns", namespace, "-force", "-batch", "-"], input="\n".join(lines) + "\n",
            text=True, capture_output=True)
        return done.returncode == 0

    def is_known(self, kind):
        """Whether this kernel has such links."""
        known = self.ip(self.birth(kind, "probe", 0))
        if known:
            self.ip("link del probe")
        return known

    def plug(self, link):
        """Adds a link, with another index than the last of that name."""
        self.births += 1
        # The kernel reports a pair with equal indexes late.
        self.ip(f"link add {link.name} index {1000 + 2 * self.births} type veth peer name {link.name} "
                f"index {1001 + 2 * self.births} netns {self.world}")
        link.up = link.carrier = True
        self.ip(f"link set {link.name} up", f"address add {link.gateway[4]}/24 dev {link.name}",
                f"address add {link.gateway[6]}/64 dev {link.name} nodad", namespace=self.world)
        self.ip(*self.configured(link))

    def configured(self, link):
        """What a network manager does with a new link; sometimes without waiting for duplicate
        detection.
        """
        nodad = self.chance.choice(["nodad", ""])
        return [f"link set {link.name} up", f"address replace {link.address[4]} dev {link.name}",
                f"address replace {link.address[6]} dev {link.name} {nodad}",
                link.default(4), link.default(6)]

    # Events

    def change(self):
        """Makes the next change."""
        names = list(CHANGES)
        name = self.chance.choices(names, [CHANGES[name] for name in names])[0]
        self.last = self.last[-40:] + [name]
        getattr(self, name)()

    def note(self, text):
        self.last[-1] += f" {text}"

    def uplink(self):
        link = self.chance.choice(self.uplinks)
        self.note(link.name)
        return link

    def link(self):
        link = self.uplink()
        link.up = not link.up
        if link.up:
            self.ip(*self.configured(link)[:self.chance.choice([1, 5, 5, 5])])
        else:
            self.ip(f"link set {link.name} down")

    def carrier(self):
        link = self.uplink()
        link.carrier = not link.carrier
        self.ip(f"link set {link.name} {'up' if link.carrier else 'down'}", namespace=self.world)

    def replug(self):
        link = self.uplink()
        self.ip(f"link del {link.name}")
        self.plug(link)

    def address(self):
        """Removes or adds the address, or adds another one."""
        link, family = self.uplink(), self.chance.choice([4, 6])
        what = self.chance.choice(["del", "replace", "replace", "more"])
        if what != "more":
            self.ip(f"address {what} {link.address[family]} dev {link.name}",
                    *([link.default(family)] if what == "replace" else []))
        elif len(self.addresses) > 8:
            self.ip(f"address del {self.addresses.pop(self.chance.randrange(8))}")
        else:
            host = self.chance.randrange(10, 250)
            more = f"10.{link.number}.0.{host}/24" if family == 4 else f"2001:db8:{link.number}::{host}/64"
            self.addresses.append(f"{more} dev {link.name}")
            self.ip(f"address add {self.addresses[-1]}")

    def route(self):
        link, family = self.uplink(), self.chance.choice([4, 6])
        self.ip(link.default(family, self.chance.choice(["del", "replace", "replace"])))

    def metric(self):
        link, family = self.uplink(), self.chance.choice([4, 6])
        old, link.metric = link.metric, self.chance.randrange(50, 800)
        self.ip(link.default(family), link.default(family, "del", old), link.default(10 - family),
                link.default(10 - family, "del", old))

    def bounce(self):
        """Lost and back before connd reads."""
        link, family = self.uplink(), self.chance.choice([4, 6])
        self.ip(*self.chance.choice([
            [link.default(family, "del"), link.default(family)],
            [f"link set {link.name} down", *self.configured(link)],
            [f"address del {link.address[family]} dev {link.name}",
             f"address add {link.address[family]} dev {link.name}", link.default(family)],
        ]))
        link.up = True

    def rule(self):
        if len(self.rules) > 4:
            self.ip(f"{self.rules.pop(self.chance.randrange(len(self.rules)))}")
            return
        link, family = self.uplink(), self.chance.choice([4, 6])
        inet = "-6 " if family == 6 else ""
        table = TABLES_FROM + link.number
        selector = self.chance.choice([
            f"from {link.address[family].split('/')[0]}", f"to {self.chance.choice(PROBES[family])}",
            "fwmark 7", "from all"])
        priority = RULES_FROM + self.chance.randrange(100)
        words = f"{selector} lookup {table} priority {priority}"
        self.rules.append(f"{inet}rule del {words}")
        self.ip(link.default(family) + f" table {table}", f"{inet}rule add {words}")

    def obstacle(self):
        """A default route that leads nowhere, or a route to a probe."""
        if self.obstacles:
            self.ip(self.obstacles.pop())
            return
        link, family = self.uplink(), self.chance.choice([4, 6])
        inet = "-6 " if family == 6 else ""
        words = self.chance.choice([
            "unreachable default metric 10", "prohibit default metric 10", "blackhole default metric 10",
            f"{self.chance.choice(PROBES[family])} via {link.gateway[family]} dev {link.name}"])
        self.obstacles.append(f"{inet}route del {words}")
        self.ip(f"{inet}route add {words}")

    def nexthops(self):
        """A default route with a nexthop object, which takes the route with it."""
        if self.nexthop:
            self.ip(f"nexthop del id {self.nexthop}")
            self.nexthop = None
            return
        link = self.uplink()
        self.nexthop = self.chance.randrange(1, 1000)
        self.ip(f"nexthop add id {self.nexthop} via {link.gateway[4]} dev {link.name}",
                f"route add default nhid {self.nexthop} metric 20")

    def router(self):
        """Another router answers for the gateway's address."""
        link, family = self.uplink(), self.chance.choice([4, 6])
        link.router += 1
        self.ip(f"neigh replace {link.gateway[family]} lladdr 02:00:00:00:{link.number:02x}:"
                f"{link.router % 256:02x} dev {link.name} nud reachable")

    def birth(self, kind, name, number):
        kind, *lower = kind.split(" ", 1)
        ends = f"local 10.0.0.2 remote 10.{number % 6}.0.1"
        return {
            "vxlan": f"link add {name} type vxlan id {number + 1} {ends} dstport 4789",
            "ipip": f"link add {name} type ipip {ends} ttl {1 + number % 250}",
            "gre": f"link add {name} type gre {ends} key {number + 1}",
            "sit": f"link add {name} type sit {ends} ttl {1 + number % 250}",
            "vlan": f"link add {' '.join(lower)} name {name} type vlan id {1 + number % 4000}",
            "tun": f"tuntap add dev {name} mode tun",
        }.get(kind, f"link add {' '.join(lower)} name {name} type {kind}")

    def extras(self):
        """Links of other kinds, above others and beside them, with an unused name."""
        if len(self.extra) > 4 or self.extra and self.chance.random() < 0.4:
            self.ip(f"link del {self.extra.pop(self.chance.randrange(len(self.extra)))}")
            return
        self.births += 1
        kind, name, number = self.chance.choice(self.kinds), f"x{self.births}", self.births
        self.note(f"{name} {kind}")
        self.extra.append(name)
        lines = [self.birth(kind, name, number), f"link set {name} up",
                 f"address add 10.{100 + number % 100}.0.2/24 dev {name}",
                 f"address add 2001:db8:{100 + number % 100}::2/64 dev {name}"]
        if self.chance.random() < 0.5:
            lines += [f"route add default dev {name} metric 30", f"-6 route add default dev {name} metric 30"]
        self.ip(*lines)

    def containers(self):
        """Events that concern no path."""
        self.births += 1
        name = f"c{self.births}"
        self.ip(*[f"link add {name} type veth peer name {name}p", f"link set {name} up",
                  f"link set {name}p up", f"link del {name}"] * self.chance.choice([1, 5]))

    def burst(self):
        """Hundreds of unrelated routes."""
        count = self.chance.choice([50, 300, 1000])
        if self.chance.random() < 0.5:
            self.ip(*[f"route add unreachable 20.0.{n // 256}.{n % 256}" for n in range(count)],
                    "route flush root 20.0.0.0/8")
        else:
            self.ip(*[f"-6 route add unreachable 2001:db8:ffff::{n:x}" for n in range(count)],
                    "-6 route flush root 2001:db8:ffff::/48")

    def storm(self):
        """One default route moves from link to link and back."""
        links, family = self.chance.sample(self.uplinks, 2), self.chance.choice([4, 6])
        inet = "-6 " if family == 6 else ""
        self.ip(*[link.default(family, "replace", 40) for link in links * self.chance.choice([2, 30])],
                f"{inet}route del default metric 40")

    def repair(self):
        """Removes all obstacles, and repairs all links."""
        self.ip(*self.obstacles, *self.rules)
        self.obstacles, self.rules = [], []
        for link in self.uplinks:
            link.up = link.carrier = True
            self.ip(f"link set {link.name} up", namespace=self.world)
            self.ip(*self.configured(link))

    def flip(self):
        """Makes a change that is always published: the default route moves to another link, before
        and after all others. Returns the link.
        """
        self.flips += 1
        gateway = f"10.250.0.{3 + self.flips % 2}"
        if not self.ip(f"route replace default via {gateway} dev mark metric 1"):
            raise AssertionError("the route was refused")
        return gateway

    def flop(self):
        self.ip("route del default metric 1")

    def mark(self):
        """Makes a unique change after all others: a gateway that was never used before."""
        self.marks += 1
        gateway = f"10.250.{1 + self.marks // 250 % 250}.{1 + self.marks % 250}"
        if not self.ip(f"route replace {MARK} via {gateway} dev mark table {MARK_TABLE}"):
            raise AssertionError("the mark was refused")
        return gateway


# By weight.
CHANGES = {
    "link": 8, "carrier": 8, "replug": 2, "address": 8, "route": 10, "metric": 6, "bounce": 4, "rule": 5,
    "obstacle": 4, "nexthops": 3, "router": 3, "extras": 5, "containers": 3, "burst": 2, "storm": 1, "repair": 5,
}
