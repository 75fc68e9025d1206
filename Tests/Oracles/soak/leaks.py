"""A process's memory and descriptors over time: a slope, not a snapshot."""

import collections
import contextlib
import os
import re
import statistics
import time


def descriptors(pid):
    """The number of descriptors of each kind."""
    kinds = collections.Counter()
    for name in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            kinds[re.sub("socket:.*", "socket", os.readlink(f"/proc/{pid}/fd/{name}"))] += 1
    return kinds


def anonymous(pid):
    """Kilobytes of anonymous memory: the heap and stacks; not the pages of the program."""
    with open(f"/proc/{pid}/smaps_rollup") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("Anonymous:"))


def slope(points):
    """The median of the slopes between all pairs (Theil and Sen), which a few leaps do not change.
    """
    return statistics.median(
        (y2 - y1) / (x2 - x1)
        for index, (x1, y1) in enumerate(points) for x2, y2 in points[index + 1:] if x2 > x1)


# Kilobytes. Without a leak, memory is level after two or three minutes, and the slope is 0; a run
# that ends by then has seen it grow by up to 400, in pieces of up to 220. Within an hour, a leak of
# 200 bytes for each published change shows, or of 400 for each subscriber that came and went.
LEAP = 1024
HOURLY = 512
FEWEST = 6  # samples for a slope


class Samples:
    """Samples of one process, taken when nothing happens and with the same clients each time."""

    def __init__(self, pid):
        self.pid = pid
        self.all = []  # seconds, kilobytes

    def take(self):
        self.all.append((time.monotonic(), anonymous(self.pid)))

    def verdict(self):
        """Returns the text, and whether it is good. The first third is ignored, because memory
        grows until all of it has been used.
        """
        late = self.all[len(self.all) // 3:]
        if len(late) < FEWEST:
            return f"memory: {self.all[-1][1]} kB; {len(self.all)} samples are too few for a slope", True
        seconds = late[-1][0] - late[0][0]
        rate = slope(late)
        grown, most = rate * seconds, LEAP + HOURLY * seconds / 3600
        return (f"memory: {late[0][1]} kB, then {late[-1][1]} kB after {seconds:.0f} s; the slope is {rate * 3600:.0f} kB an "
                f"hour, or {grown:.0f} kB in this time (limit {most:.0f} kB)", grown <= most)
