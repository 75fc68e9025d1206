#!/usr/bin/env python3
"""truth.py CONND: traffic is the truth (rule I0).

Worlds are drawn from seeds: a machine, its uplinks, routers as strict as a provider's, and a
server, in network namespaces. They change at random under real TCP connections with continuous
traffic, each guarded by connd. After each change, connd must have ended a connection that stays
dead. It must not have ended one that still carries bytes, or whose uplink only loses packets.
oracle.py defines the conditions; it checks the traffic and the kernel, and knows nothing of connd.
topology.py and netfilter.py define the parts of a world, losses.py its losses, plan.py its events,
and play.py judges it. Beside each world stands what ends connections of other programs, by turns
`connctl reap` and `connctl run --guard` (reaping.py), from the directory of CONND. It must not end
a connection that still carries bytes (R2).

Environment: STEPS, the number of changes in all (50 in each world); WORLDS, the number at a time;
SEED, that of the first world, which the others follow; SCRIPT, a file with a world and its steps,
instead of a seed; SHORTEN, the number of tries for a finding; REAPER, `reap`, `guard` or `none` in
all worlds. Findings are printed, shortened by
removing steps, and saved as scripts.
"""

import collections
import ctypes
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import plan
from shorten import shorten
from world import is_known

ENDS = [signal.SIGHUP, signal.SIGINT, signal.SIGTERM]
KINDS = 8  # the number of kinds of findings to shorten
SAVED = ".build/truth"


class Run:
    """One world, in its own process."""

    def __init__(self, binary, script, directory, kind=None):
        self.script, self.began = script, time.monotonic()
        with tempfile.NamedTemporaryFile("w", dir=directory, suffix=".json", delete=False) as file:
            json.dump({"script": script, "until": kind}, file)
        self.result = f"{file.name}.result"
        self.process = subprocess.Popen([sys.executable, __file__, "--play", binary, file.name, self.result])

    def finish(self):
        """Returns the findings and the counts."""
        status = self.process.wait()
        if status:
            raise SystemExit(f"the process of a world exited with {status}: seed {self.script['seed']}")
        with open(self.result) as file:
            return json.load(file)


class Truth:
    def __init__(self, binary, worlds, tries):
        self.directory = tempfile.mkdtemp(prefix="connd-truth-")
        # The programs may be rebuilt during the run.
        self.binary = shutil.copy(binary, self.directory)
        shutil.copy(f"{os.path.dirname(binary)}/connctl", self.directory)
        self.worlds, self.tries = worlds, tries
        self.runs = []
        self.kinds = collections.Counter()
        self.first = {}  # script and finding, by kind
        self.counts = collections.Counter()

    def start(self, script, kind=None):
        self.runs.append(Run(self.binary, script, self.directory, kind))
        return self.runs[-1]

    def finish(self, run):
        try:
            return run.finish()
        finally:
            self.runs.remove(run)

    def play(self, scripts):
        """Plays all of them, this many at a time."""
        waiting = collections.deque(scripts)
        while waiting or self.runs:
            while waiting and len(self.runs) < self.worlds:
                self.start(waiting.popleft())
            done = [run for run in self.runs if run.process.poll() is not None]
            for run in done:
                self.take(run.script, self.finish(run))
            if not done:
                time.sleep(0.02)

    def take(self, script, result):
        self.counts.update(result["counts"])
        for finding in result["findings"]:
            kind = finding["kind"]
            if kind not in self.first:
                self.first[kind] = script, finding
                print(f"\n{finding['text']}\n", flush=True)
            else:
                print(f"the same kind of finding in step {finding['step']} of seed {script['seed']}: {kind}", flush=True)
            self.kinds[kind] += 1

    def shorten(self):
        """Shortens the first of each kind, and saves them as scripts."""
        os.makedirs(SAVED, exist_ok=True)
        for kind, (script, finding) in list(self.first.items())[:KINDS]:
            def fails(shorter):
                result = self.finish(self.start(shorter, kind))
                return next((found for found in result["findings"] if found["kind"] == kind), None)

            shorter = shorten(script, finding, fails, self.tries) if self.tries else script
            name = f"{SAVED}/{script['seed']}-{re.sub('[^a-zA-Z0-9]+', '-', kind).strip('-')}.json"
            with open(name, "w") as file:
                json.dump(shorter, file, indent=1)
            print(f"\n{kind}: {len(shorter['steps'])} of {len(script['steps'])} steps, replay with: make truth SCRIPT={name}")
            for step in shorter["steps"]:
                print(f"  {step['name']}: {'; '.join(' '.join(map(str, operation)) for operation in step['do'])}")
            sys.stdout.flush()

    def report(self, began):
        seconds, steps = time.monotonic() - began, self.counts["steps"]
        print(f"{steps} steps in {seconds:.0f} s ({self.counts['milliseconds'] / max(steps, 1):.0f} ms each in its world, "
              f"{self.worlds} worlds at a time). {self.counts['connections']} connections survived {self.counts['survived']} changes, "
              f"{self.counts['stalled']} of them with more than a second of silence, and {self.counts['limped']} were limping. "
              f"connd destroyed {self.counts['ended']}, {self.counts['silent']} of them as silent; the peer reset {self.counts['reset']}, and "
              f"{self.counts['unknowable']} died although the kernel showed no reason. Of {self.counts['listed']} listed, "
              f"{self.counts['listed dead']} were dead. connctl reap ended {self.counts['reap']}, and connctl run --guard "
              f"{self.counts['guard']}; {self.counts['left']} went on")
        for kind, count in self.kinds.most_common():
            script, finding = self.first[kind]
            print(f"{count} times, first in step {finding['step']} of seed {script['seed']}: {kind}")
        print("no findings" if not self.kinds else f"{sum(self.kinds.values())} findings of {len(self.kinds)} kinds", flush=True)

    def end(self):
        for run in self.runs:
            run.process.terminate()
        for run in self.runs:
            run.process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)


def scripts(seed, steps):
    bonds = is_known("bond")
    for number in range(-(-steps // plan.STEPS)):
        yield plan.script(seed + number, min(plan.STEPS, steps - number * plan.STEPS), bonds)


def play_one(binary, source, result):
    """In its own process: plays one script, and writes down the findings."""
    from play import Play
    from reaping import KINDS
    with open(source) as file:
        given = json.load(file)
    reaper = os.environ.get("REAPER") or KINDS[given["script"]["seed"] % 2]
    world = Play(given["script"], binary, f"connd-truth-{os.getpid()}", None if reaper == "none" else reaper)
    findings = world.run(until=given["until"])
    milliseconds = sum(seconds for seconds, _ in world.slow) * 1000
    with open(result, "w") as file:
        json.dump({"findings": [vars(finding) for finding in findings],
                   "counts": world.counts | {"steps": len(world.slow), "milliseconds": int(milliseconds)}}, file)


def main():
    # A signal also cleans up, even one to the parent process.
    for number in ENDS:
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    if sys.argv[1] == "--play":
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)
        play_one(*sys.argv[2:])
        # Does not wait for grpc's threads.
        sys.stdout.flush()
        os._exit(0)
    setting = lambda name, default: os.environ.get(name) or default
    seed = int(setting("SEED", random.SystemRandom().randrange(1 << 31)))
    steps, began = int(setting("STEPS", 1000)), time.monotonic()
    truth = Truth(sys.argv[1], int(setting("WORLDS", 2)), int(setting("SHORTEN", 24)))
    try:
        if setting("SCRIPT", None):
            with open(os.environ["SCRIPT"]) as file:
                script = json.load(file)
            truth.play([script])
            truth.tries = 0
        else:
            print(f"seed {seed}, {steps} steps", flush=True)
            truth.play(scripts(seed, steps))
            truth.shorten()
        truth.report(began)
    finally:
        for number in ENDS:
            signal.signal(number, signal.SIG_IGN)
        truth.end()
    sys.exit(1 if truth.kinds else 0)


if __name__ == "__main__":
    main()
