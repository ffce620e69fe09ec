from __future__ import annotations

import torch

from veracity.core.grouped import within


def test_places_within_groups_against_counting() -> None:
    group = torch.tensor([3, 3, 5, 7, 7, 7]).numpy()
    slow = [sum(1 for other in group[:place] if other == group[place]) for place in range(len(group))]
    assert within(group).tolist() == slow
