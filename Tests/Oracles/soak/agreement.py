"""Compares connd with `ip`."""

import json
import subprocess

from clients import check, pb
from connectivity.v1 import diagnostics_pb2 as diagnostics
from network import PROBES

LOOPBACK = ("127.", "::1")
# The reasons for the kernel's errors.
REASONS = {
    "Network is unreachable": pb.PATH_REASON_NO_ROUTE, "No route to host": pb.PATH_REASON_UNREACHABLE,
    "Permission denied": pb.PATH_REASON_PROHIBITED, "Invalid argument": pb.PATH_REASON_BLACKHOLE,
    "Resource temporarily unavailable": pb.PATH_REASON_THROW,
}

# By the names in the configuration.
MEDIA = {"eth": pb.MEDIUM_WIRED, "wlan": pb.MEDIUM_WIFI, "wwan": pb.MEDIUM_CELLULAR}
CATEGORIES = {
    pb.MEDIUM_WIRED: (pb.CATEGORY_WIRED, pb.THREE_WAY_CATEGORY_WIFI),
    pb.MEDIUM_WIFI: (pb.CATEGORY_WIFI, pb.THREE_WAY_CATEGORY_WIFI),
    pb.MEDIUM_CELLULAR: (pb.CATEGORY_CELLULAR, pb.THREE_WAY_CATEGORY_CELLULAR),
}
OTHER = pb.CATEGORY_OTHER, pb.THREE_WAY_CATEGORY_WIFI
NONE = pb.CATEGORY_NONE, pb.THREE_WAY_CATEGORY_NONE


def ip(namespace, *words):
    return subprocess.run(
        ["ip", "-netns", namespace, "-json", *words], capture_output=True, text=True)


def dump(namespace, *words):
    done = ip(namespace, *words)
    check(done.returncode == 0, f"ip {words}:", done.stderr)
    return json.loads(done.stdout or "[]")


def answer(namespace, destination, source=None):
    """The kernel's answer: link, source, gateway and table, or the reason for none."""
    done = ip(namespace, "route", "get", destination, *(["from", source] if source else []))
    if done.returncode != 0:
        reasons = [reason for error, reason in REASONS.items() if error in done.stderr]
        check(reasons, f"ip route get {destination}:", done.stderr)
        return reasons[0]
    route, = json.loads(done.stdout)
    return (route["dev"], source or route.get("prefsrc"), route.get("gateway"),
            {"main": 254, "local": 255, "default": 253}.get(table := route.get("table", "main")) or int(table),
            route.get("type", "unicast"))


def told(path):
    """The same properties of a path that connd reports."""
    if path.status == pb.PATH_STATUS_UNSATISFIED:
        return path.reason
    field = lambda name: getattr(path, name) if path.HasField(name) else None
    return tuple(map(field, ["interface", "source", "gateway", "table"]))


def majority(answers):
    """The answer of most probes, whatever their source; in a tie the earliest."""
    way = lambda answer: answer if isinstance(answer, int) else (answer[0], *answer[2:])
    ways = [way(answer) for answer in answers]
    return answers[max(range(len(ways)), key=lambda n: (ways.count(ways[n]), -n))]


def check_summary(status):
    """The summary is that of the better path (K7), and the category follows the table (K1)."""
    order = [pb.PATH_STATUS_SATISFIED, pb.PATH_STATUS_REQUIRES_CONNECTION, pb.PATH_STATUS_UNSATISFIED]
    family, path = min([(pb.ADDRESS_FAMILY_IPV4, status.ipv4), (pb.ADDRESS_FAMILY_IPV6, status.ipv6)],
                       key=lambda each: order.index(each[1].status))
    is_satisfied = path.status == pb.PATH_STATUS_SATISFIED
    category, three_way = CATEGORIES.get(path.medium, OTHER) if is_satisfied else NONE
    expected = pb.Status(
        generation=status.generation, since=status.since, network_namespace=status.network_namespace,
        category=category, three_way=three_way,
        flags=pb.Flags(
            reachable=path.status != pb.PATH_STATUS_UNSATISFIED,
            connection_required=path.status == pb.PATH_STATUS_REQUIRES_CONNECTION,
            is_wwan=path.medium == pb.MEDIUM_CELLULAR),
        interface=path.interface if path.HasField("interface") else None, medium=path.medium,
        expensive=path.expensive if path.HasField("expensive") else None, constrained=path.constrained, ipv4=status.ipv4, ipv6=status.ipv6,
        family=family, dns=status.dns if status.HasField("dns") else None)
    check(status == expected, "the summary of the status does not follow from its paths:", status, expected)


class Kernel:
    """Everything that `ip` shows at one moment. Two equal ones with a status in between hold for
    that status.
    """

    def __init__(self, namespace, questions):
        """Queries destinations, each with the source of the traffic, or None."""
        # The rest of it has timers and counters.
        self.links = {
            link["ifname"]: {
                **{key: link.get("linkinfo", {}).get("info_data", {}).get(key) for key in ["remote", "local"]},
                **{key: link.get(key) for key in ["ifindex", "flags", "operstate", "link"]}}
            for link in dump(namespace, "-details", "link")}
        self.addresses = {
            link["ifname"]: link["addr_info"] for link in dump(namespace, "address") if link.get("addr_info")}
        for infos in self.addresses.values():
            for info in infos:
                for passing in ["valid_life_time", "preferred_life_time"]:
                    info.pop(passing, None)
        self.default = {
            family: majority([answer(namespace, probe) for probe in probes])
            for family, probes in PROBES.items()}
        self.answers = {question: answer(namespace, *question) for question in questions}

    def __eq__(self, other):
        return vars(self) == vars(other)

    def check_settled(self):
        """Checks that nothing is under way: no duplicate detection, and all carriers are reported.
        """
        for name, link in self.links.items():
            flags = link["flags"]
            if "UP" in flags:
                is_told = link["operstate"] in ["UP", "UNKNOWN"]
                check(("LOWER_UP" in flags) == is_told, f"{name} has not settled:", link)
            # Without a carrier no neighbour can answer.
            if "LOWER_UP" in flags:
                for info in self.addresses.get(name, []):
                    check(not info.get("tentative"), f"{name} has not settled:", info)
        return True

    def addresses_of(self, link):
        return {f"{info['local']}/{info['prefixlen']}" for info in self.addresses.get(link, [])}

    def why(self, path):
        """Why the path carries no traffic, as K3 says, or None if it does."""
        for link in reversed(path.chain):
            flags = self.links[link.name]["flags"]
            if "UP" not in flags:
                return pb.PATH_REASON_LINK_DOWN
            if "LOWER_UP" not in flags:
                return pb.PATH_REASON_NO_CARRIER
        info = [info for infos in self.addresses.values() for info in infos
                if info["local"] == path.source]
        is_local = not path.source or path.source.startswith(LOOPBACK) or path.source.startswith("fe80:")
        if is_local or not info or any(each.get("tentative") or each.get("dadfailed") for each in info):
            return pb.PATH_REASON_NO_SOURCE_ADDRESS
        return None

    def check_path(self, path, answer, what):
        expected = answer if isinstance(answer, int) else answer[:4]
        # Only a unicast route leads to the internet.
        check(told(path) == expected, f"{what}: connd and ip disagree:", f"ip says {answer}", path)
        if path.status == pb.PATH_STATUS_UNSATISFIED:
            return
        check(path.chain[0].name == path.interface, f"{what}: the chain does not begin with the path's link:", path)
        names = [link.name for link in path.chain]
        for link in path.chain:
            check(link.name in self.links and self.links[link.name]["ifindex"] == link.index,
                  f"{what}: ip has no link {link.name} {link.index}:", path)
        for upper, lower in zip(names, names[1:]):
            named = self.links[upper]["link"]
            check(named in (None, lower), f"{what}: ip says that {upper} is above {named}:", path)
        if isinstance(answer, int) or answer[4] != "unicast":
            return
        reason = self.why(path)
        if path.status == pb.PATH_STATUS_SATISFIED:
            check(reason is None, f"{what}: connd says satisfied, but ip shows {reason and pb.PathReason.Name(reason)}:", path)
        elif path.reason != reason:
            # The path ends at a tunnel whose remote end has no route, or whose own address is gone
            # (K6). For the latter, ip gives the same answer as for no route.
            tunnels = [name for name in names if self.links[name]["remote"]]
            present = {info["local"] for infos in self.addresses.values() for info in infos}
            known = set(REASONS.values())
            if any(self.links[name]["local"] not in present | {None, "any"} for name in tunnels):
                known.add(pb.PATH_REASON_NO_SOURCE_ADDRESS)
            check(tunnels and path.reason in known, f"{what}: ip does not show this reason:", path)

    def check_status(self, status):
        check(status.category != pb.CATEGORY_UNKNOWN, "connd reports an unknown category:", status)
        for family, path in [(4, status.ipv4), (6, status.ipv6)]:
            answer = self.default[family]
            # For example of type local: no default route is used.
            if not isinstance(answer, int) and answer[4] != "unicast":
                answer = pb.PATH_REASON_NO_ROUTE
            self.check_path(path, answer, f"default path of IPv{family}")
            medium = next((medium for name in [link.name for link in path.chain] for prefix, medium in MEDIA.items()
                           if name.startswith(prefix)), path.medium)
            check(path.medium == medium, "the medium is not that of the configuration:", path)
        check_summary(status)

    def check_links(self, links):
        check({(link.index, link.name) for link in links}
              == {(link["ifindex"], name) for name, link in self.links.items()}, "connd and ip list different links:", links)
        for link in links:
            flags = self.links[link.name]["flags"]
            state = (diagnostics.LINK_STATE_DOWN if "UP" not in flags else
                     diagnostics.LINK_STATE_UP if "LOWER_UP" in flags else diagnostics.LINK_STATE_NO_CARRIER)
            check(link.state == state, f"the state of a link does not follow from its flags {flags}:", link)
            check(set(link.addresses) == self.addresses_of(link.name), "connd and ip list different addresses:", link)

    def check_flow(self, flow):
        """Checks a living flow: the route to its remote end, and that its own address exists."""
        # Looked up with its own address (I0).
        self.check_path(flow.path, self.answers[flow.remote, flow.local], f"flow to {flow.remote} from {flow.local}")
        check(not flow.local or any(flow.local == info["local"]
                                    for infos in self.addresses.values() for info in infos),
              "the address of a flow is gone, but connd has not destroyed it:", flow)
