"""What must be true of a connection, by its traffic and by what the kernel answers (rule I0). Nothing here knows how connd decides.

- A connection whose bytes still come and go was told no `destroy`, unless policy says so. Policy is read from the kernel, at each
  moment between two commands of a step:
    moved     I3: asked with all that is its own, the kernel sends it by another link than before
    resourced I3: by the same route the kernel would now choose a source of another subnet, and would not when it was made; in IPv6 only
              where that is by another router than it was made by
    removed   I1: its address was none of this machine's
    link      I2: a link of its path was gone or down; or had lost its carrier, where that medium has no grace (I10)
    network   I4: a link of its path had lost its carrier, and the router's hardware address is another
- A connection that stays dead for longer than its grace and two seconds was told `destroy`. The exception is what the kernel cannot
  know, for its answer is the same as before, its address is there and its links carry:
  - a router is silent (`silent` in a script);
  - the connection crosses: already before, the kernel's answer was another uplink than that of its address, whose provider
    drops it. With IPv6 and several nexthops connect(2) chooses one before it has an address and a port. The socket remembers
    that one, until any change of any route makes it ask again, with both: then the hash is another. So it is in IPv4 with a group
    of nexthop objects, of which the kernel passes over those whose router it does not know yet;
  - IPv6 took another way for a moment, as it does where it believes that a router does not answer: a router that it asks whether
    it is there again counts as there, without a message (rt6_check_neigh). The socket remembers what it was told then. Where it
    believes so of each, it takes them in turn (rt6_select): who asks twice gets two answers. What an address of a link was
    told to leave by another is destroyed all the same, and so tested;
  - its address is no link's own (`lo`, AnyIP), and it moved to another of several nexthops, now or before: a host that is
    reached by several routers lives on, and one whose providers differ does not. With several nexthops each is right;
  - its address is no link's own, and the router's way back leads by one that this machine has given up;
  - it is in a tunnel to whose other end several links may lead, by nexthops or rules for source ports, and not all of these
    carry: which port the kernel takes nobody knows; or in one whose packets leave by another uplink than that of their address,
    as where a route of a nexthop object outlives its link's address.
- A new connection, whose handshake is done, is not ended by its registration.
"""

from dataclasses import dataclass

from clients import pb
from kernel import UNICAST, Answer, Question
from network import PROBES
from topology import TUNNEL_END, subnet

GRACE = 1.0
LATE = 2.0  # seconds that connd has beyond the grace
SLACK = 0.5  # for a busy machine
# By a hash of what is inside, the kernel takes one of many ports.
TUNNEL = [Question(TUNNEL_END, protocol=17, local_port=port, remote_port=4789) for port in (32768, 40000, 46000, 50000, 60999)]


@dataclass
class View:
    """What the kernel said of one connection at one moment."""
    own: Answer
    free: Answer
    is_local: bool
    below: str  # "" where the links of its path carry, else why not
    legs: list  # the links of all nexthops of its route, where there are several

    def resources(self, connection):
        """Whether new connections by the same route get a source of another subnet."""
        route = lambda answer: (answer.link, answer.gateway, answer.table)
        return bool(self.free.source and not self.own.error and route(self.free) == route(self.own)
                    and subnet(self.free.source) != subnet(connection.address))

    @property
    def is_dead(self):
        """The kernel has no way for it that could work."""
        return bool(self.own.error or self.own.type != UNICAST or not self.is_local or self.below)


class Moment:
    """What the kernel says at one moment."""

    def __init__(self, kernel, uplinks):
        self.kernel, self.links = kernel, kernel.links()
        self.uplinks = {uplink.top: uplink for uplink in uplinks}
        self.named = {link.name: link for link in self.links.values()}

    def below(self, index):
        """Why the links of a path do not carry: gone, down, or without a carrier for which there is a grace or none."""
        link = self.links.get(index)
        if not link:
            return "gone"
        uplink = self.uplinks.get(link.name)
        chain = [link]
        # A bond knows by itself whether one of its ports carries.
        if uplink and uplink.over in ("bridge", "macvlan"):
            # Of a bridge's ports the uplink is the one that counts, whatever the others do.
            port = self.named.get(uplink.name)
            if not port:
                return "gone"
            chain.append(port)
        if not all(each.is_up for each in chain):
            return "down"
        if not all(each.has_carrier for each in chain):
            return "no carrier, with grace" if uplink and uplink.is_wifi else "no carrier"
        if link.name == "vx0":
            legs = self.below_tunnel()
            return legs[0] if legs and all(legs) else "" if legs else "no way to the tunnel's end"
        return ""

    def below_tunnel(self):
        """`below` of each link that may lead to the tunnel's other end."""
        links = set()
        for question in TUNNEL:
            outer = self.kernel.route(question)
            if not outer.error and outer.type == UNICAST:
                links |= set(self.kernel.legs(question) or [outer.link])
        return [self.below(link) for link in links if self.links[link].name != "vx0"]

    def tunnel_crosses(self):
        """Whether the tunnel's own packets leave by another uplink than that of their address, whose provider drops them."""
        outers = [self.kernel.route(question) for question in TUNNEL]
        uplinks = [(self.uplink(outer), outer.source) for outer in outers]
        return any(uplink and source and not uplink.owns(source) for uplink, source in uplinks)

    def is_of_no_link(self, connection):
        """Whether its address is no link's own: it was bound to such a one, or the kernel chose one of `lo` for want of a better."""
        own = [uplink.address(6 if ":" in connection.address else 4, 2, 9) for uplink in self.uplinks.values()]
        return connection.wanted["kind"] in ("any", "local") or connection.address in own

    def uplink(self, answer):
        """The uplink that an answer leads over; None for another link."""
        link = self.links.get(answer.link)
        return self.uplinks.get(link.name) if link else None

    def view(self, connection, base=None):
        """Where there is no way, the links are those of the way that there was in `base`."""
        own = self.kernel.route(connection.own)
        link = own.link or base and base.own.link
        return View(own, self.kernel.route(connection.free), self.kernel.is_local(connection.address),
                    self.below(link) if link else "", self.kernel.legs(connection.own))

    def default(self):
        """Whether there is a default way, None where that is disputable: probes that differ, a nexthop of several that does not
        carry, addresses that cannot be used."""
        verdicts = []
        for family, probes in PROBES.items():
            answers = [self.kernel.route(Question(probe)) for probe in probes]
            if any(self.below(leg) for leg in self.kernel.legs(Question(probes[0]))):
                return None
            ways = {(answer.link, answer.error, answer.type) for answer in answers}
            if len(ways) > 1:
                return None
            answer = answers[0]
            if answer.error or answer.type != UNICAST:
                # A default that holds for some sources only: connect(2) may choose one of them.
                if family == 6 and self.has_way_from_some_source(probes[0]):
                    return None
                verdicts.append(False)
            elif not answer.source or answer.source.startswith(("127.", "fe80:", "::1")):
                return None
            elif self.below(answer.link) and family == 6 and self.has_other_way(probes[0], answer.link):
                return None
            else:
                verdicts.append(not self.below(answer.link))
        return any(verdicts)

    def has_way_from_some_source(self, probe):
        sources = [uplink.address(6, 2, net) for uplink in self.uplinks.values() for net in (0, 8, 9)]
        answers = [self.kernel.route(Question(probe, source)) for source in sources]
        return any(not answer.error and answer.type == UNICAST for answer in answers)

    def has_other_way(self, probe, link):
        """Whether there is a way by another uplink. IPv6 takes that while it believes that the router of the better one does not
        answer, and of when it believes so there is no message."""
        others = [self.named[top].index for top in self.uplinks if top in self.named and self.named[top].index != link]
        answers = [self.kernel.route(Question(probe, link=other)) for other in others]
        return any(not answer.error and answer.type == UNICAST and not self.below(answer.link) for answer in answers)

    @property
    def is_settled(self):
        return all(link.is_settled for link in self.links.values())


def policy(base, views, connection, swapped=(), told=None):
    """Why connd may end a connection that works: words of the docstring above, by what the kernel said since `base`."""
    reasons = set()
    # What IPv6 believes of routers changes between two looks, and with it the way: of that connd's word is all there is.
    if told and ":" in connection.address and told.is_of_router and told.reason in ("betterPath", "interfaceLost"):
        reasons.add("moved")
    for view in views:
        if not view.is_local:
            reasons.add("removed")
        if view.below in ("gone", "down", "no carrier"):
            reasons.add("link")
        if view.below.startswith("no carrier") and swapped:
            reasons.add("network")
        if not view.own.error and view.own.link != base.own.link:
            reasons.add("moved")
        # Where it has moved since it was made, what it was made on says nothing of that.
        chosen = connection.first if connection.first.own.link == base.own.link else base
        is_of_same_router = ":" in connection.address and view.own.gateway == chosen.own.gateway
        if view.resources(connection) and not chosen.resources(connection) and not is_of_same_router:
            reasons.add("resourced")
    return reasons


def is_unknowable(base, views, connection, moment, silent):
    """Whether nothing that the kernel says of a dead connection tells that it is dead."""
    if moment.is_of_no_link(connection) and not any(view.is_dead for view in views) and (
            connection.was_spread or all(base.own.link == view.own.link for view in views)):
        return True
    if connection.wanted["kind"] == "inner" and (any(moment.below_tunnel()) or moment.tunnel_crosses()):
        return True
    # The socket remembers a nexthop that carries no more, until any route changes: what is asked anew gets another. A group of
    # nexthop objects passes over those whose router is not known yet (nexthop_is_good_nh), in IPv4, too.
    if len(views[-1].legs) > 1 and (":" in connection.address or moment.kernel.is_of_object(connection.own)):
        return True
    if ":" in connection.address and len({view.own.link for view in [base, *views]}) > 1 and not views[-1].is_dead and (
            views[-1].own.link == base.own.link or connection.wanted["kind"] == "local"):
        return True
    links = [view.own.link for view in [base, *views]] + [moment.kernel.route(connection.own).link for _ in range(3)]
    if ":" in connection.address and sum(one != other for one, other in zip(links, links[1:])) > 1:
        return True
    # Its way back leads by an address that this machine may have given up.
    if connection.wanted["kind"] == "neighbour" and subnet(connection.address) != subnet(connection.own.remote):
        return True
    used = moment.uplink(views[-1].own)
    if used and subnet(connection.address) != subnet(used.address(4 if "." in connection.address else 6)) and not (
            moment.kernel.is_local(used.address(4 if "." in connection.address else 6))):
        return True
    last = views[-1]
    if last.is_dead or (last.own.link, last.own.gateway) != (base.own.link, base.own.gateway):
        return False
    # It is sent to another provider than that of its address.
    used = moment.uplink(base.own)
    return base.own.gateway in silent or used is not None and not used.owns(connection.address)


def status_disagrees(status, moment):
    """What is wrong with the published category, or None."""
    expected = moment.default()
    if expected is None or expected == (status.category != pb.CATEGORY_NONE):
        return None
    return f"there is {'a' if expected else 'no'} default way, and connd says {pb.Category.Name(status.category)}"
