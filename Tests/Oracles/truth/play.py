"""Plays one script (a topology and steps) in its own world, and judges after each step."""

import contextlib
import dataclasses
import json
import os
import shutil
import tempfile
import time

import netfilter
import oracle
from clients import DEADLINE, Failure, pb
from guarding import DESTROY, Guarding, camel
from kernel import Changes
from losses import Losses
from network import MEDIA
from oracle import EXAMINED, GRACE, LATE, SILENCE, SLACK, STALL, WHILE, Moment
from reaping import KINDS, Reaper
from topology import PORTS, Uplink, setup
from traffic import Traffic, plain
from world import World

CONNECT = 0.3  # maximum seconds of a handshake
TRIES = 2  # attempts for a connection while the kernel's answer is the same
PATIENCE = 15  # steps after which it is attempted again anyway
SETTLE = 1.5  # seconds after which the kernel has reported a carrier
PIECE = 20  # milliseconds
HEARD = 2.0  # seconds within which connd has heard of a change
LIMP = 0.3  # seconds in which connd ends a connection by its lookup, although it limps


def parts(operation):
    """Splits a pause: the kernel continues in the meantime, and is queried."""
    name, *arguments = operation
    if name != "pause":
        return [operation]
    whole, rest = divmod(arguments[0], PIECE)
    return [["pause", PIECE]] * whole + [["pause", rest]]


def is_change(operation):
    """Whether it may cost a path of this machine: its own links, addresses, routes and rules, and
    the other ends of its cables.
    """
    name, *arguments = operation
    return name in ("M", "ra") or "link set port" in str(arguments[0])


class Finding:
    """A violation for the connection in a slot. Two of one `kind` count as the same fault."""

    def __init__(self, kind, step, slot, text):
        self.kind, self.step, self.slot, self.text = kind, step, slot, text


class Play:
    def __init__(self, script, binary, name, reaper=None):
        """`reaper`: the kind of reaper to run, or None."""
        self.script, self.name, self.kind_of_reaper = script, name, reaper
        self.topology = script["topology"]
        self.uplinks = [Uplink(data) for data in self.topology["uplinks"]]
        self.binary = binary
        self.findings = []
        self.slots = {}
        self.tried = {}  # by slot: the kernel's answer at the failure, the step, and the count
        self.spoiled = set()  # slots whose new connections are refuted
        self.bases = {}
        self.losses = Losses(self.uplinks)
        self.counts = {"connections": 0, "ended": 0, "survived": 0, "stalled": 0, "limped": 0, "silent": 0,
                       "reset": 0, "unknowable": 0, "listed": 0, "listed dead": 0, **dict.fromkeys(KINDS, 0), "left": 0}
        self.slow = []
        self.step_number = 0
        self.set_up = 0  # commands of the log that made the world
        self.changed = 0  # when the machine's network last changed
        self.wrong = None  # the last fault of the status
        self.world = self.traffic = self.guarding = self.directory = self.changes = self.reaper = None

    def run(self, until=None):
        """Plays all steps, or until a finding of this kind."""
        try:
            self.start()
            for number, step in enumerate(self.script["steps"]):
                self.step_number = number
                began = time.monotonic()
                self.step(step)
                self.slow.append((time.monotonic() - began, step["name"]))
                if until and any(finding.kind == until for finding in self.findings):
                    break
        except Failure as failure:
            self.find("the test or a stream failed", str(failure))
        finally:
            self.end()
        return self.findings

    def start(self):
        self.directory = tempfile.mkdtemp(prefix="connd-truth-")
        # Another user's connections go through a relay in it.
        os.chmod(self.directory, 0o755)
        with open(f"{self.directory}/connd.yaml", "w") as file:
            file.write(MEDIA)
        self.traffic = Traffic()
        self.world = World(self.name, self.traffic.pump)
        for operation in setup(self.topology) + netfilter.setup(self.topology, self.uplinks):
            refused = self.world.do(operation)
            if refused:
                raise Failure(f"the kernel refused a command of the setup: {operation}: {refused}")
        for name, namespace in self.world.namespaces.items():
            if name != "M":
                self.traffic.serve(namespace, *PORTS, netfilter.STEERED)
        self.traffic.serve(self.world.namespaces["M"], netfilter.PROXY)
        self.kernel = self.world.kernel
        self.changes = Changes(self.world.namespaces["M"])
        self.traffic.watch(self.changes.socket.fileno(), lambda _: self.changes.read())
        self.set_up = len(self.world.log)
        has_user = any(wanted and "uid" in wanted for wanted in self.topology["connections"])
        self.guarding = Guarding(self.world, self.traffic, self.directory, self.binary, has_user)
        self.guarding.attach()
        if self.kind_of_reaper:
            self.reaper = self.traffic.reaper = Reaper(
                self.kind_of_reaper, f"{os.path.dirname(self.binary)}/connctl", self.world.full("M"),
                self.guarding.connd.socket, self.directory)
        self.settle()
        self.fill()

    def moment(self):
        return Moment(self.kernel, self.uplinks)

    # New connections

    def fill(self):
        """Makes the missing connections if the kernel has a way for them."""
        moment = self.moment()
        made = []
        for slot, wanted in enumerate(self.topology["connections"]):
            if slot in self.slots or slot in self.spoiled or wanted is None:
                continue
            device = moment.named.get(wanted.get("device"))
            question = oracle.Question(
                wanted["remote"], wanted.get("local"), 0, wanted["port"], 6, wanted.get("mark", 0), wanted.get("uid", 0),
                device.index if device else 0)
            answer = self.kernel.route(question)
            before = self.tried.get(slot)
            tries = before[2] if before and before[0] == answer else 0
            if tries >= TRIES and self.step_number - before[1] < PATIENCE:
                continue
            if answer.error or moment.below(answer.link):
                continue
            self.tried[slot] = answer, self.step_number, tries + 1
            connection = self.traffic.connect(slot, wanted, self.world.namespaces["M"])
            if connection:
                made.append(connection)
        self.traffic.pump(CONNECT, lambda: all(each.echoed or each.error for each in made))
        alive = [each for each in made if each.echoed and not each.error]
        for connection in made:
            if connection not in alive:
                self.traffic.close(connection)
        moment = self.moment()
        for connection in alive:
            connection.name(moment.links)
            self.slots[connection.slot] = connection
            self.tried.pop(connection.slot, None)
            self.counts["connections"] += 1
            self.guarding.add(connection)
            self.bases[connection] = connection.first = moment.view(connection)
        self.check_registered(alive)

    def check_registered(self, connections):
        def answered():
            self.guarding.take()
            return all(map(self.guarding.answers, connections))

        if not self.traffic.pump(DEADLINE, answered):
            raise Failure("connd has not answered a registration")
        for connection in connections:
            if self.guarding.destroyed(connection):
                number = self.traffic.send(connection)
                if self.traffic.pump(GRACE, lambda: connection.echoed >= number):
                    self.find_connection("destroyed when registered, although it works", connection, [])
                    self.spoiled.add(connection.slot)
                self.drop(connection)

    def drop(self, connection):
        del self.slots[connection.slot]
        self.bases.pop(connection, None)
        self.guarding.remove(connection)
        if self.reaper:
            self.reaper.leave(connection)
        else:
            self.traffic.close(connection)

    def judge_reaped(self):
        """Judges the connections that the reaper has ended."""
        for connection in self.reaper.take() if self.reaper else []:
            if not connection.was_reaped():
                self.counts["left"] += not connection.error
            else:
                self.counts[self.kind_of_reaper] += 1
                if self.reaper.was_wrong(connection):
                    self.find_connection(f"ended by connctl ({self.kind_of_reaper}) while it carried bytes", connection, [])
            self.traffic.close(connection)

    # A step and its judgement

    def step(self, step):
        connections, began = list(self.slots.values()), time.monotonic()
        views = {connection: [] for connection in connections}

        def look():
            moment = self.moment()
            for connection in connections:
                views[connection].append(moment.view(connection, self.bases.get(connection)))

        for operation in step["do"]:
            for part in parts(operation):
                refused = self.world.do(part)
                if is_change(part) and not refused:
                    self.changed = time.monotonic()
                if self.losses.note(part, refused):
                    # The kernel's answers are the same, but connections can be made again.
                    self.tried.clear()
                look()
        self.check_listed()
        swapped = step.get("swapped", False)
        self.judge(connections, views, look, swapped, began)
        self.check_status()
        self.settle()
        self.guarding.fence()
        self.judge_reaped()
        # connd reports some changes late, or only with the next one.
        look()
        for connection in connections:
            if connection in self.bases and self.guarding.destroyed(connection):
                self.judge_ended(connection, views[connection], swapped, time.monotonic())
        moment = self.moment()
        for connection in self.slots.values():
            # A connection that moved because a route was removed is ended later for that.
            if not self.guarding.is_in_doubt(connection):
                self.bases[connection] = moment.view(connection, self.bases[connection])
        self.fill()

    def limps(self, connection):
        """Whether an uplink that it may use loses so many packets that a missing echo proves
        nothing.
        """
        def find_link():
            base = self.bases.get(connection)
            link = self.moment().links.get(base.own.link) if base else None
            return link.name if link else None

        return self.losses.may_concern(connection, find_link)

    def judge(self, connections, views, look, swapped, began):
        """Judges each connection: living ones by an echo, ended ones by the reason, the others by
        time.
        """
        changed = time.monotonic()
        numbers = {connection: self.traffic.send(connection) for connection in connections}
        fresh = lambda connection: connection.echoed >= numbers[connection]
        excuses = lambda connection: oracle.policy(
            self.bases[connection], views[connection], connection, swapped, self.guarding.destroyed(connection))

        def is_clear(connection):
            if self.guarding.destroyed(connection):
                view = views[connection][-1]
                return fresh(connection) or view.is_dead or excuses(connection) or time.monotonic() > changed + GRACE
            return fresh(connection) or time.monotonic() > changed + LIMP and self.limps(connection)

        looked = changed

        def are_clear():
            nonlocal looked
            if time.monotonic() > looked + PIECE / 1000:
                look()
                looked = time.monotonic()
            self.guarding.take()
            return all(map(is_clear, connections))

        self.traffic.pump(EXAMINED + SILENCE + LATE + SLACK, are_clear)
        moment = self.moment()
        for connection in connections:
            views[connection].append(moment.view(connection, self.bases.get(connection)))
            if self.guarding.destroyed(connection):
                self.judge_ended(connection, views[connection], swapped, changed, numbers[connection])
            elif connection.error:
                # The peer has closed it, so the application knows.
                self.counts["reset"] += 1
                self.drop(connection)
            elif not fresh(connection):
                if self.limps(connection):
                    self.counts["limped"] += 1
                    continue
                if oracle.is_unknowable(connection, views[connection], self.changed):
                    self.counts["unknowable"] += 1
                else:
                    self.find_connection("dead, but not destroyed", connection, views[connection])
                self.drop(connection)
            else:
                self.counts["survived"] += 1
                self.counts["stalled"] += connection.was_silent(began, STALL)

    def judge_ended(self, connection, views, swapped, changed, number=None):
        told = self.guarding.destroyed(connection)
        self.traffic.pump(told.time + WHILE - time.monotonic())
        excused = oracle.excuse(self.bases[connection], views, connection, swapped, told)
        links = self.moment().links
        is_tunnelled = all(view.own.link in links and links[view.own.link].name == "vx0" for view in views)
        silence = told.reason == "silent" and oracle.silence_disagrees(connection, told, self.changes.times, is_tunnelled)
        self.counts["silent"] += told.reason == "silent"
        if connection.carried(told.time - WHILE, told.time + WHILE):
            self.find_connection(f"destroyed while it carried bytes: {told.reason}", connection, views)
        elif silence:
            self.find_connection(f"destroyed as silent, but {silence}", connection, views)
        elif not excused and not views[-1].is_dead:
            number = number or self.traffic.send(connection)
            left = changed + GRACE - time.monotonic()
            # If only packets are lost, it works without an echo (W1).
            only_limps = self.limps(connection) and all(view == self.bases[connection] for view in views)
            if only_limps or self.traffic.pump(max(left, 0), lambda: connection.echoed >= number):
                self.find_connection(f"destroyed although it works: {told.reason}", connection, views)
        self.counts["ended"] += 1
        self.drop(connection)

    def check_status(self):
        """Checks the published category, as soon as connd has heard of the last change."""
        end = time.monotonic() + (0 if self.wrong else HEARD)
        while True:
            status = self.guarding.status()
            wrong = oracle.status_disagrees(status, self.moment())
            if not wrong:
                self.wrong = None
                return
            if time.monotonic() > end:
                break
            self.traffic.pump(0.05)
        # Once is enough until it is right again.
        if not self.wrong:
            self.find(f"status: {wrong}", "\n".join([str(status), *self.state()]))
        self.wrong = wrong

    def check_listed(self):
        """Checks that no connection is listed as dead while it carries bytes."""
        listed, now = self.guarding.listed(), time.monotonic()
        self.counts["listed"] += len(listed)
        dead = []
        for connection in self.slots.values():
            ends = plain(connection.local), connection.local_port, plain(connection.remote), connection.remote_port
            verdict = listed.get(ends)
            if verdict and verdict.severity == DESTROY:
                dead.append((connection, verdict))
        if not dead:
            return
        self.counts["listed dead"] += len(dead)
        self.traffic.pump(now + WHILE - time.monotonic())
        for connection, verdict in dead:
            if connection.carried(now - WHILE, now + WHILE):
                reason = camel(pb.InvalidationReason.Name(verdict.reason), "INVALIDATION_REASON_")
                self.find_connection(f"listed as dead while it carried bytes: {reason}", connection, [])

    def settle(self):
        """Waits until the kernel has reported all carriers, which may take a second."""
        self.traffic.pump(SETTLE, lambda: self.moment().is_settled)

    # Findings

    def state(self):
        show = self.world.show
        return [
            "the state of the machine:", show("-brief", "link"), show("-brief", "address"), show("rule"), show("-6", "rule"),
            show("route", "show", "table", "all", "type", "unicast"),
            show("-6", "route", "show", "table", "all", "type", "unicast"), show("nexthop"), show("neigh"),
            "connd's log:", *self.guarding.log()[-15:],
            *(["connctl:", *self.reaper.lines()[-15:]] if self.reaper else [])]

    def find_connection(self, kind, connection, views):
        now = time.monotonic()
        base = self.bases.get(connection)
        echoes = [f"{echo - now:+.3f}" for echo in list(connection.echoes)[-60:]]
        name = connection.wanted.get("device")
        own = self.kernel.route(connection.own)
        bare = self.kernel.route(dataclasses.replace(connection.own, protocol=0, local_port=0, remote_port=0))
        text = [
            str(connection), "connd's reports:",
            *[f"  {told.time - now:+.3f} s {told.text}" for told in self.guarding.answers(connection)],
            f"the last echoes, in seconds: {' '.join(echoes)}; sent {connection.number}, echoed {connection.echoed}; "
            f"error {connection.error}", connection.witness(),
            *self.story(connection, views), f"the lookup without protocol and ports: {bare}",
            "ip route get " + " ".join(connection.own.words(name)) + ":",
            self.world.show("route", "get", *connection.own.words(name)),
            "ip route get " + " ".join(connection.free.words(name)) + ":",
            self.world.show("route", "get", *connection.free.words(name)), *self.state()]
        # A fault in a lookup without ports is a kind of its own.
        by_ports = ", by ports" if bare.link != own.link else ""
        self.find(f"{kind} ({connection.wanted['kind']}{by_ports})", "\n".join(text), connection.slot)

    def story(self, connection, views):
        """The kernel's view before the step and after each command, if it changed."""
        last = None
        for number, view in enumerate([self.bases.get(connection), *views]):
            if view and view != last:
                yield (f"{f'the kernel after command {number}' if number else 'the kernel before'}: {view.own}; looked up without "
                       f"its source: {view.free}; {'' if view.is_local else 'its address is not local; '}links: {view.below or 'working'}")
            last = view

    def find(self, kind, text, slot=None):
        step = self.script["steps"][self.step_number] if self.script["steps"] else {"name": "none"}
        now = time.monotonic()
        last = [f"  {when - now:+.3f} s {operation}{f': {said}' if said else ''}"
                for when, operation, said in self.world.log[self.set_up:] if "fence" not in str(operation)][-16:]
        self.findings.append(Finding(kind, self.step_number, slot, "\n".join([
            f"{kind}\nin step {self.step_number} ({step['name']}) of seed {self.script.get('seed')}",
            f"topology: {json.dumps(self.topology['uplinks'])}", "the last commands:", *last, text])))

    def end(self):
        # Each of these, even if others fail; the last one first.
        with contextlib.ExitStack() as stack:
            if self.directory:
                stack.callback(shutil.rmtree, self.directory, ignore_errors=True)
            if self.world:
                stack.callback(self.world.remove)
            for part in [self.reaper, self.traffic, self.guarding]:
                if part:
                    stack.callback(part.end)
            if self.changes:
                stack.callback(self.changes.close)
