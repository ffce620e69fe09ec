"""Train the flow network on generated particle images: python -m veracity_papers.zoo.train_flow OUT [--steps N] [--device cuda]

Needs torch, numpy and safetensors, and no data. About two minutes on a GPU. If the real pairs are available, their end-point
errors are stored with the weights.
"""

from __future__ import annotations

import time

import torch
from torch import Tensor

from veracity.trainers.training import initialised
from veracity_papers.data import files
from veracity_papers.data.particles import FILE, particle_pairs, piv
from veracity_papers.zoo.flow import NAME, FlowNet
from veracity_papers.zoo.scripts import Report, command, halve, one_cycle, progress, say, write


def fit(
    model: FlowNet, steps: int, generator: torch.Generator, *, batch: int = 32, side: int = 128, report: Report | None = None
) -> FlowNet:
    """Train in place on fresh pairs, by the mean end-point error; returns the network in evaluation mode."""

    def loss() -> Tensor:
        pairs, flow = particle_pairs(batch, generator, side=side)
        return end_point_error(model(pairs), flow).mean()

    return one_cycle(model, loss, steps, rate=2e-3, decay=1e-4, clip=1.0, report=report)


def end_point_error(flow: Tensor, truth: Tensor) -> Tensor:
    """The mean distance (N,) between vectors of flows (N, 2, H, W), in pixels.

    >>> end_point_error(torch.zeros(1, 2, 1, 1), torch.tensor([3.0, 4.0]).reshape(1, 2, 1, 1))
    tensor([5.])
    """
    return ((flow - truth).square().sum(dim=1) + 1e-8).sqrt().mean(dim=(1, 2))


@torch.no_grad()
def evaluate(model: FlowNet, device: str) -> dict[str, float]:
    """The end-point error on fresh generated pairs of full size, and on the real ones if they are available, in pixels."""
    made = particle_pairs(16, torch.Generator(device=device).manual_seed(1), side=256)
    found = {"epe_generated": round(float(end_point_error(model(made[0]), made[1]).mean()), 4)}
    if files.locate(FILE) is not None:
        real = piv()
        errors = [end_point_error(model(x.to(device)), y.to(device)) for x, y in zip(real.frames.split(9), real.flow.split(9), strict=True)]
        found["epe_real"] = round(float(torch.cat(errors).mean()), 4)
    return found


def main() -> None:
    """Read the arguments, train, write the weights, print one line every 500 steps and one at the end."""
    given = command("Train the flow network of the orbit recipes.", steps=4000, batch=32).parse_args()
    start = time.perf_counter()
    model = initialised(FlowNet, given.seed).to(given.device)
    generator = torch.Generator(device=given.device).manual_seed(given.seed)
    fit(model, given.steps, generator, batch=given.batch, report=progress(NAME, start, 500, "epe"))
    halve(model)
    say(write(model, NAME, given.out, start, steps=given.steps, batch=given.batch, seed=given.seed, **evaluate(model, given.device)))


if __name__ == "__main__":
    main()
