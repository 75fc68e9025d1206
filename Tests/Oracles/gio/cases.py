"""cases.py MODULE CONND small|full [CASE...]: see ./run."""

import sys
import time

import bed
from answers import crowd, cycle, four_cases, reach, routes, thread
from programs import choice, network_manager, portal, python, qt
from trouble import absent, foreign, hostile, memcheck, restart, suspended
from watching import CONND, NAMES

CASES = [four_cases, reach, thread, cycle, crowd, routes, restart, suspended, absent, foreign, hostile, memcheck,
         choice, network_manager, python, qt, portal]


def main():
    cases = {case.__name__: case for case in CASES}
    if unknown := set(NAMES) - set(cases):
        sys.exit(f"no case {', '.join(unknown)}: choose from {', '.join(cases)}")
    bed.make()
    connd = bed.Connd(CONND)
    connd.start()
    for name in NAMES or cases:
        start = time.monotonic()
        print(name, flush=True)
        cases[name](connd)
        print(f"  passed after {time.monotonic() - start:.1f} s", flush=True)
    connd.stop()


main()
