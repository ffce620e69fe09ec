"""How often the paired interval of a change between two cards contains the true change: `python -m benchmarks.card_changes`."""

from __future__ import annotations

import numpy as np

from veracity.cards.changes import paired_difference
from veracity.cards.decide import Terms

PAIRS, CHANGE = 2000, -0.05


def main() -> None:
    draw = np.random.default_rng(1)
    print("samples  values     covered  low end above the true change")
    for n in (16, 32, 64, 128):
        for kind in ("normal", "lognormal"):
            covered = above = 0
            for _ in range(PAIRS):
                level = draw.normal(0.5, 0.3, n) if kind == "normal" else 0.3 * draw.lognormal(0, 0.7, n)
                room = draw.uniform(0.3, 1.7, n)
                before = level * room + draw.normal(0, 0.1, n)
                after = before + CHANGE * room + draw.normal(0, 0.1, n)
                old, new = (Terms(gap[:, None], room[:, None]) for gap in (before, after))
                found = paired_difference(old, new, 0.95)
                covered += found.low <= CHANGE <= found.high
                above += found.low > CHANGE
            print(f"{n:7}  {kind:9}  {100 * covered / PAIRS:6.2f} %  {100 * above / PAIRS:.2f} %")


if __name__ == "__main__":
    main()
