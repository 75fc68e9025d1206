"""What a process holds, over time: a slope, not a snapshot."""

import collections
import contextlib
import os
import re
import statistics
import time


def descriptors(pid):
    """How many there are, by what they are."""
    kinds = collections.Counter()
    for name in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            kinds[re.sub("socket:.*", "socket", os.readlink(f"/proc/{pid}/fd/{name}"))] += 1
    return kinds


def anonymous(pid):
    """Kilobytes of memory that no file backs: the heap, stacks; not the pages of the program."""
    with open(f"/proc/{pid}/smaps_rollup") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("Anonymous:"))


def slope(points):
    """The median of the slopes between all pairs (Theil and Sen): a few leaps do not move it."""
    return statistics.median(
        (y2 - y1) / (x2 - x1)
        for index, (x1, y1) in enumerate(points) for x2, y2 in points[index + 1:] if x2 > x1)


class Samples:
    """Of one process, taken when nothing happens and with the same clients each time."""

    def __init__(self, pid):
        self.pid = pid
        self.all = []  # seconds, changes published by then, kilobytes

    def take(self, published):
        self.all.append((time.monotonic(), published, anonymous(self.pid)))

    def verdict(self):
        return "\n".join(f"{t - self.all[0][0]:.0f} s {p} {k} kB" for t, p, k in self.all)
