"""python -m tests.fuzz --cases 10000 --seed 0 [--workers 2] [--kinds audit,file] [--case K]"""

from __future__ import annotations

import argparse
import sys
import time

from .running import KINDS, LIMIT, case, run, summary

EVERY = 250
"""After how many cases a line tells how far it is."""


def main() -> int:
    """Run cases and print what they found; 1 if anything was."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Random audits, audit files, settings and manifests.")
    parser.add_argument("--cases", type=int, default=500, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the number of the first")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=None, help="processes; one per core by default")
    parser.add_argument("--kinds", default=",".join(KINDS), help="of these kinds alone")
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds after which a case has hung")
    parser.add_argument("--case", type=int, default=None, help="run this one alone, here")
    given = parser.parse_args()
    kinds = tuple(given.kinds.split(","))
    if given.case is not None:
        seen = case(given.seed, given.case, kinds)
        sys.stdout.write(f"{seen}\n")
        return int(bool(seen.findings))
    started, found = time.monotonic(), {}
    for number, seen in run(range(given.first, given.first + given.cases), given.seed, given.workers, kinds, given.limit):
        found[number] = seen
        if seen.findings or len(found) % EVERY == 0:
            sys.stderr.write(f"{len(found)} of {given.cases} cases. {f'Case {number}: {seen.findings[0]}' if seen.findings else ''}\n")
    sys.stdout.write(summary(found, given.seed, time.monotonic() - started, kinds) + "\n")
    return int(any(one.findings for one in found.values()))


if __name__ == "__main__":
    sys.exit(main())
