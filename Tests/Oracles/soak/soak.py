#!/usr/bin/env python3
"""soak.py CONND SECONDS [SEED]: changes a network at random under two connds, and follows them.

One connd is never restarted, and must not grow. The other is restarted repeatedly, and its clients
must miss nothing. From time to time everything rests: then the clients' knowledge, connd's and the
output of `ip` must agree.
"""

import contextlib
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback

import agreement
from clients import Failure, check, pb
from connd import FOLLOWED, MIRRORS, Connd, Visitors, eventually
from leaks import Samples, descriptors
from network import MEDIA, Network

LULL = 0.08  # mean seconds between two changes
FULL = 1200  # changes after which connd has had to forget some and rewrite its file
ENDS = [signal.SIGHUP, signal.SIGINT, signal.SIGTERM]
STEPS = 100  # mean number of changes between two checks


class Soak:
    def __init__(self, binary, seconds, seed):
        self.seconds = seconds
        # Separate, so that clients do not influence the network's events.
        self.chance, self.client_chance = random.Random(seed), random.Random(f"clients of {seed}")
        self.binary, self.directory = binary, tempfile.mkdtemp(prefix="connd-soak-")
        self.network = Network(f"connd-soak-{os.getpid()}", random.Random(f"network of {seed}"))
        self.connds, self.visitors = [], None
        self.looks = 0
        self.began = time.monotonic()

    def start(self):
        # It may be rebuilt during the run.
        binary = shutil.copy(self.binary, f"{self.directory}/connd")
        with open(f"{self.directory}/connd.yaml", "w") as file:
            file.write(MEDIA)
        self.network.make()
        for name, outlives in [("steady", False), ("restless", True)]:
            self.connds.append(
                Connd(name, self.network.name, self.directory, binary, outlives))
        for connd in self.connds:
            connd.start()
        self.steady, self.restless = self.connds
        for connd in self.connds:
            # A missing socket is waited for.
            connd.attach()
            connd.get()
        self.samples = Samples(self.steady.process.pid)
        self.visitors = Visitors(*self.connds, self.client_chance, self.directory)

    def fill(self):
        """Fills the history, and has its file rewritten: growth until then is not a leak."""
        mirror = self.steady.mirrors[0]
        mirror.wait("snapshot", lambda: mirror.status)
        for _ in range(FULL):
            if mirror.status.generation > FULL:
                break
            # Two quick changes may cancel out, so wait for the first one.
            gateway = self.network.flip()
            mirror.wait("message of the flipped route", lambda: mirror.status.ipv4.gateway == gateway)
        self.network.flop()

    def run(self):
        self.fill()
        self.look()
        while time.monotonic() < self.began + self.seconds:
            for _ in range(self.chance.randrange(STEPS // 2, STEPS * 3 // 2)):
                self.step()
            self.look()

    def step(self):
        self.network.change()
        # The load; nothing waits for its completion.
        if self.chance.random() < 0.7:
            time.sleep(min(self.chance.expovariate(1 / LULL), 2))
        if self.client_chance.random() < 0.3:
            self.visitors.churn()
        for connd in self.connds:
            connd.guardian.churn(self.client_chance)
        if not self.restless.process:
            if self.chance.random() < 0.3:
                self.restless.start()
        elif self.chance.random() < 0.02:
            self.restless.stop(kill=self.chance.random() < 0.5)
        for connd in self.connds:
            connd.check_running()

    # Conditions at rest

    def look(self):
        self.looks += 1
        self.visitors.end()
        if not self.restless.process:
            self.restless.start()
        network = self.network
        eventually("the links have settled", lambda: agreement.Kernel(network.name, []).check_settled())
        mark = network.mark()
        for connd in self.connds:
            marked, *_ = connd.followers
            marked.wait("message of the mark", lambda: marked.path and marked.path.gateway == mark)
            for mirror in connd.mirrors:
                mirror.state(marked.generation)
            eventually("nothing changes during a comparison", lambda: self.agrees(connd))
            # Flows are evaluated after all other clients.
            eventually("flows agree with ip", lambda: self.flows_agree(connd))
        one, other = (self.comparable(connd.get()) for connd in self.connds)
        self.forget_costs(one, other)
        check(one == other, "the two connds report different states:", one, other)
        for connd in self.connds:
            self.count(connd)
        self.samples.take()

    def moment(self, questions, read):
        """Returns the read values and what `ip` shows, if the latter was equal before and after;
        otherwise None.
        """
        before = agreement.Kernel(self.network.name, questions)
        found = read()
        kernel = agreement.Kernel(self.network.name, questions)
        return (kernel, found) if kernel == before else None

    def agrees(self, connd):
        """Returns whether there was a moment for the comparison; fails on a difference."""
        moment = self.moment([(each, None) for each in FOLLOWED], lambda: (connd.get(), connd.links(), connd.get()))
        if not moment:
            return False
        kernel, (status, links, after) = moment
        if status != after:
            return False
        for mirror in connd.mirrors:
            made = mirror.state(status.generation)
            check(made == status, f"{mirror.name}: the messages of Watch and GetStatus disagree:", made, status)
        kernel.check_status(status)
        kernel.check_links(links)
        for follower in connd.followers:
            kernel.check_path(follower.path, kernel.answers[follower.destination, None], follower.name)
        return True

    def flows_agree(self, connd):
        guardian = connd.guardian
        guardian.wait("answer for every flow", lambda: all(flow.is_answered for flow in guardian.flows.values()))
        moment = self.moment({(flow.remote, flow.local or None) for flow in guardian.alive()}, guardian.alive)
        if not moment:
            return False
        kernel, flows = moment
        for flow in flows:
            kernel.check_flow(flow)
        return True

    @staticmethod
    def forget_costs(one, other):
        """Drops the cost of a tunnel whose uplink is lost if only one connd remembers it. The other
        has restarted since."""
        for mine, theirs in [(one.ipv4, other.ipv4), (one.ipv6, other.ipv6), (one, other)]:
            if mine.medium == pb.MEDIUM_TUNNEL and mine.HasField("expensive") != theirs.HasField("expensive"):
                mine.ClearField("expensive")
                theirs.ClearField("expensive")

    def comparable(self, status):
        """Removes what may differ between two connds: the number of changes, and their times."""
        status.ClearField("generation")
        status.ClearField("since")
        return status

    def count(self, connd):
        """Checks that connd holds the state of its clients, and none of clients that have left."""
        expected = {
            "subscribers": MIRRORS, "watched_paths": len(FOLLOWED), "guarding_clients": 1,
            "guarded_flows": len(connd.guardian.flows)}
        eventually(f"{connd.name} holds {expected}",
                   lambda: expected.items() <= connd.holds().items())
        pid = connd.process.pid
        if connd.base is None:
            connd.base = descriptors(pid)
        eventually(f"{connd.name} holds the same descriptors as at first",
                   lambda: check((now := descriptors(pid)) == connd.base,
                                 f"{connd.name} holds other descriptors than at first:", connd.base, now) or True)

    def report(self):
        steady, restless = self.connds
        print(f"{time.monotonic() - self.began:.0f} s, {self.network.count} changes, {self.looks} checks at rest; "
              f"links of {len(self.network.kinds)} kinds: {', '.join(self.network.kinds)}")
        for connd in self.connds:
            mirror = connd.mirrors[0]
            events = ", ".join(f"{event} {count}" for event, count in sorted(mirror.events.items()))
            print(f"{connd.name}: {connd.restarts} restarts, {connd.told()} messages to its clients; one subscriber received {events}; "
                  f"{connd.guardian.destroyed} flows destroyed; {connd.base.total()} descriptors")
        print(f"{self.visitors.count} short-lived subscribers")
        text, is_good = self.samples.verdict()
        print(text)
        check(is_good, f"memory leaks: {[kilobytes for _, kilobytes in self.samples.all]}")

    def explain(self):
        print("the last changes of the network:", *self.network.last, sep="\n  ")
        for connd in self.connds:
            connd.log.seek(0)
            print(f"the log of {connd.name}:", *connd.log.read().splitlines()[-30:], sep="\n  ")

    def end(self):
        # Each of these, even if others fail; the last one first.
        with contextlib.ExitStack() as stack:
            stack.callback(shutil.rmtree, self.directory)
            stack.callback(self.network.remove)
            for connd in self.connds:
                stack.callback(connd.end)
            if self.visitors:
                stack.callback(self.visitors.dismiss_all)


def main():
    binary, seconds = sys.argv[1], float(sys.argv[2])
    seed = int(sys.argv[3]) if sys.argv[3:] and sys.argv[3] else random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}, {seconds:.0f} seconds", flush=True)
    # A signal also cleans up.
    for number in ENDS:
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    soak = Soak(binary, seconds, seed)
    status = 1
    try:
        soak.start()
        soak.run()
        soak.report()
        status = 0
    except Exception as failure:
        soak.explain()
        if not isinstance(failure, Failure):
            traceback.print_exc(file=sys.stdout)
        print(f"seed {seed}, after {time.monotonic() - soak.began:.0f} s: {failure}")
    except SystemExit as end:
        status = end.code
    finally:
        # A second signal would leave things behind.
        for number in ENDS:
            signal.signal(number, signal.SIG_IGN)
        soak.end()
    sys.stdout.flush()
    # Does not wait for grpc's threads.
    os._exit(status)


if __name__ == "__main__":
    main()
