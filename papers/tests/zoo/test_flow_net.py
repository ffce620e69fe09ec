from __future__ import annotations

import pytest
import torch

from veracity.core.errors import InputError
from veracity.trainers.training import initialised
from veracity_papers.data.particles import particle_pairs
from veracity_papers.zoo.flow import FlowNet, costs, pretrained, warp
from veracity_papers.zoo.storage import facts
from veracity_papers.zoo.train_flow import end_point_error, fit


def test_costs_are_products_with_the_features_around() -> None:
    generator = torch.Generator().manual_seed(0)
    first, second = torch.rand(2, 2, 3, 4, 5, generator=generator).unbind(0)
    found = costs(first, second, 1)
    assert found.shape == (2, 9, 4, 5)
    for down in (-1, 0, 1):
        for right in (-1, 0, 1):
            for y in range(4):
                for x in range(5):
                    there = 0 <= y + down < 4 and 0 <= x + right < 5
                    expected = (first[1, :, y, x] * second[1, :, y + down, x + right]).mean() if there else torch.zeros(())
                    assert float(found[1, 3 * (down + 1) + right + 1, y, x]) == pytest.approx(float(expected), abs=1e-6)


def test_warping_reads_where_the_flow_points() -> None:
    features = torch.arange(20.0).reshape(1, 1, 4, 5)
    flow = torch.zeros(1, 2, 4, 5)
    flow[:, 0], flow[:, 1] = 1.0, 0.5
    assert torch.allclose(warp(features, flow)[..., :3, :4], features[..., :3, :4] + 1 + 2.5)
    assert torch.allclose(warp(features, torch.zeros(1, 2, 4, 5)), features, atol=1e-5)


def test_the_output_is_a_flow_of_the_frames_size_and_brightness_does_not_matter() -> None:
    model = initialised(lambda: FlowNet(width=4), seed=0).eval()
    pairs, _ = particle_pairs(2, torch.Generator().manual_seed(0), side=32)
    flow = model(pairs)
    assert flow.shape == (2, 2, 32, 32)
    assert torch.allclose(model(0.5 * pairs + 0.2), flow, atol=1e-4)
    assert torch.allclose(model(pairs[1:]), flow[1:], atol=1e-5)


def test_training_changes_the_weights_and_repeats_itself() -> None:
    states = []
    for _ in range(2):
        model = initialised(lambda: FlowNet(width=4), seed=0)
        states.append(fit(model, 2, torch.Generator().manual_seed(0), batch=2, side=16).state_dict())
    assert all(torch.equal(states[0][key], states[1][key]) for key in states[0])
    fresh = initialised(lambda: FlowNet(width=4), seed=0).state_dict()
    assert any(not torch.equal(states[0][key], fresh[key]) for key in fresh)


def test_the_shipped_network_measures_generated_flows() -> None:
    pairs, flow = particle_pairs(4, torch.Generator().manual_seed(7), side=64, fastest=4.0)
    with torch.no_grad():
        error = end_point_error(pretrained()(pairs), flow)
    still = end_point_error(torch.zeros_like(flow), flow)
    assert float(error.mean()) < 0.2 * float(still.mean())
    assert float(facts("flow-net")["epe_generated"]) < 0.1


def test_mistakes_are_one_sentence() -> None:
    with pytest.raises(InputError, match=r"pairs \(N, 2, H, W\) whose sides are multiples of 4, not a batch of \(1, 2, 6, 8\)"):
        FlowNet(width=4)(torch.zeros(1, 2, 6, 8))
