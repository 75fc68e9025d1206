"""Checks connections by their traffic and by the kernel's answers (rule I0), independently of
connd.

- E1: A connection that carries bytes gets no `destroy`, whatever the kernel answers.
- A connection whose bytes stop briefly and then continue got no `destroy`, unless a policy below
  allows it. Policy is read from the kernel between any two commands of a step:
    moved     I3: looked up with its own values, the kernel sends it by another link than before
    resourced I3: by the same route the kernel would now choose a source of another subnet, which
              it did not when the connection was made, and the route has another router
    removed   I1: its address was not local for the grace period, or another address of its
              subnet replaced it
    link      I2: a link of its path, or that of its address, was gone or down; or it had lost its
              carrier, and the medium has no grace period (I10)
    network   I4: a link of its path had lost its carrier, and the router's MAC address changed
- E2: A connection that received nothing after the last change of this machine's network, and stays
  dead beyond its grace period and the time of E2, got `destroy`. Without such a change connd does not
  query the socket, so that a silent router stays unknown.
- W1: A connection whose uplink only loses packets gets no `destroy`. A `destroy` with the reason
  `silent` follows a change. The connection received nothing from one second after that change until
  the report, and nothing for 6 s (30 s inside a tunnel). Its socket has two timeouts in a row.
- While an uplink loses packets, its connections may stay without an echo, and without a `destroy`.
- A connection that carries bytes is not listed as dead (ListConnections).
- A new connection, whose handshake is done, does not end by its registration.
"""

import dataclasses
import time

from clients import pb
from kernel import UNICAST, Answer, Question
from netfilter import KINDS
from network import PROBES
from topology import TUNNEL_END, subnet

GRACE = 1.0
ANSWER = 0.2  # seconds at least in which a question is answered (E1)
SLACK = 0.5  # for a busy machine
SILENCE, TUNNEL_SILENCE = 6.0, 30.0  # seconds without new data before E2 destroys
EXAMINED = 1.0  # seconds after a change at which E2 examines
LATE = 1.0  # seconds until E2 looks at a silent connection again
TIMEOUTS = 2
STALL = 1.0  # seconds without an echo that are counted
# seconds before and after the end of a connection in which its bytes count (E1 waits at most 0.1 s)
WHILE = 0.15
IN_FLIGHT = 0.05  # seconds after a change in which an echo may be from before it
# The kernel hashes the inner packet to one of many ports.
TUNNEL = [Question(TUNNEL_END, protocol=17, local_port=port, remote_port=4789) for port in (32768, 40000, 46000, 50000, 60999)]


@dataclasses.dataclass
class View:
    """The kernel's view of one connection at one moment."""
    own: Answer
    free: Answer
    is_local: bool
    below: str  # "" if the links of its path carry traffic, otherwise the reason
    home: str  # the same for the link that has its address, whatever the path
    time: float = dataclasses.field(default_factory=time.monotonic, compare=False)

    def resources(self, connection):
        """Whether new connections by the same route get a source of another subnet."""
        route = lambda answer: (answer.link, answer.gateway, answer.table)
        return bool(self.free.source and not self.own.error and route(self.free) == route(self.own)
                    and subnet(self.free.source) != subnet(connection.address))

    @property
    def is_dead(self):
        """The kernel has no working way for it."""
        return bool(self.own.error or self.own.type != UNICAST or not self.is_local or self.below)


class Moment:
    """The kernel's answers at one moment."""

    def __init__(self, kernel, uplinks):
        self.kernel, self.links = kernel, kernel.links()
        self.uplinks = {uplink.top: uplink for uplink in uplinks}
        self.named = {link.name: link for link in self.links.values()}

    def below(self, index):
        """Why the links of a path do not carry traffic: gone, down, or no carrier, with or without
        a grace period.
        """
        link = self.links.get(index)
        if not link:
            return "gone"
        uplink = self.uplinks.get(link.name)
        chain = [link]
        # A bond knows itself whether one of its ports works.
        if uplink and uplink.over in ("bridge", "macvlan"):
            # For a bridge, only the uplink's port counts.
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
        """`below` for each link that may lead to the tunnel's remote end."""
        links = set()
        for question in TUNNEL:
            outer = self.kernel.route(question)
            if not outer.error and outer.type == UNICAST:
                links |= set(self.kernel.legs(question) or [outer.link])
        return [self.below(link) for link in links if self.links[link].name != "vx0"]

    def view(self, connection, base=None):
        """Without a way, the links are those of the way in `base`."""
        own = self.kernel.route(connection.own)
        link = own.link or base and base.own.link
        home = next((self.named[top].index for top, uplink in self.uplinks.items()
                     if top in self.named and uplink.owns(connection.address)), None)
        return View(own, self.kernel.route(connection.free), self.kernel.is_local(connection.address),
                    self.below(link) if link else "", self.below(home) if home else "")

    def default(self):
        """Whether there is a default way, or None if that is disputable: probes that differ, one of
        several next hops that does not work, or unusable addresses.
        """
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
                # A default route for some sources only: connect(2) may choose one of them.
                if family == 6 and self.has_way_from_some_source(probes[0]):
                    return None
                verdicts.append(False)
            elif not answer.source or answer.source.startswith(("127.", "fe80:", "::1")):
                return None
            elif family == 6 and self.has_other_way(probes[0], answer.link):
                return None
            else:
                verdicts.append(not self.below(answer.link))
        return any(verdicts)

    def has_way_from_some_source(self, probe):
        sources = [uplink.address(6, 2, net) for uplink in self.uplinks.values() for net in (0, 8, 9)]
        answers = [self.kernel.route(Question(probe, source)) for source in sources]
        return any(not answer.error and answer.type == UNICAST for answer in answers)

    def has_other_way(self, probe, link):
        """Whether there are two ways, and only one works. IPv6 takes the worse one while it
        considers the better one's router unreachable, which no message reports.
        """
        others = [self.named[top].index for top in self.uplinks if top in self.named and self.named[top].index != link]
        answers = [self.kernel.route(Question(probe, link=other)) for other in others]
        return any(not answer.error and answer.type == UNICAST and bool(self.below(answer.link)) != bool(self.below(link))
                   for answer in answers)

    @property
    def is_settled(self):
        return all(link.is_settled for link in self.links.values())


def policy(base, views, connection, swapped=False, told=None):
    """Why connd may end a connection that works again: words of the docstring above, from the
    kernel's answers since `base`.
    """
    reasons = set()
    # IPv6's beliefs about routers change between two readings, and with them the way: only connd's
    # report shows that.
    if told and ":" in connection.address and told.is_of_router and told.reason in ("betterPath", "interfaceLost"):
        reasons.add("moved")
    if was_removed(views, connection):
        reasons.add("removed")
    for view in views:
        if {view.below, view.home} & {"gone", "down", "no carrier"}:
            reasons.add("link")
        if swapped and (view.below + view.home).startswith("no carrier"):
            reasons.add("network")
        if not view.own.error and view.own.link != base.own.link:
            reasons.add("moved")
        # If it has moved since it was made, the original view does not count.
        chosen = connection.first if connection.first.own.link == base.own.link else base
        is_of_same_router = view.own.gateway == chosen.own.gateway
        if view.resources(connection) and not chosen.resources(connection) and not is_of_same_router:
            reasons.add("resourced")
    return reasons


def excuse(base, views, connection, swapped, told):
    """Why connd may have ended a connection that works: by policy, except for a connection that no
    lookup describes (E0). Its peer was asked, so only the loss of its address counts (I1), or a
    question without an answer (E1). See `silence_disagrees` for E2.
    """
    if connection.wanted["kind"] in KINDS and told.reason not in ("sourceAddressLost", "silent"):
        return not connection.was_heard(told.time - ANSWER, told.time)
    return policy(base, views, connection, swapped, told) or told.reason == "silent"


def silence_disagrees(connection, told, changes, is_tunnelled):
    """Returns why connd may not call the connection silent, or None. `changes` has the times of the
    kernel's reports (E2, W1).
    """
    patience = TUNNEL_SILENCE if is_tunnelled else SILENCE
    change = max((time for time in changes if time < told.time - patience + SLACK), default=None)
    # The report was on its way when later echoes arrived.
    end = told.time - WHILE
    if change is None:
        return "without a change"
    if connection.was_heard(change + EXAMINED + SLACK, end):
        return "it was heard after the last change was examined"
    if connection.was_heard(told.time - patience + SLACK, end):
        return "it was heard too recently"
    if (told.timeouts or 0) < TIMEOUTS and not connection.was_heard(end, told.time + WHILE):
        return f"its socket had {told.timeouts} timeouts"
    return None


def was_removed(views, connection):
    """Whether the address was away for the grace period, or another one of its subnet replaced it.
    """
    away = [view for view in views if not view.is_local]
    return bool(away) and (away[-1].time - away[0].time > GRACE - SLACK or any(
        view.free.source and subnet(view.free.source) == subnet(connection.address) for view in away))


def is_unknowable(connection, views, changed):
    """Whether connd need not find a dead connection in this step (E2): it received data after the
    last change, at `changed`. Or its lookup stands, and it is in a tunnel, which a VPN may take
    30 s to move (I5), or its socket has had fewer than two timeouts. After a loss, the first
    timeout may take seconds.
    """
    if connection.echoes and connection.echoes[-1] > changed + IN_FLIGHT:
        return True
    timeouts = connection.timeouts()
    has_few = timeouts is not None and timeouts < TIMEOUTS
    return (connection.wanted["kind"] == "inner" or has_few) and not views[-1].is_dead


def status_disagrees(status, moment):
    """Returns the fault of the published category, or None."""
    expected = moment.default()
    if expected is None or expected == (status.category != pb.CATEGORY_NONE):
        return None
    return f"the kernel has {'a' if expected else 'no'} working default route, but connd reports {pb.Category.Name(status.category)}"
