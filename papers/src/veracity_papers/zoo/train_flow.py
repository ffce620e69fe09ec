"""Train the flow network on generated particle images: python -m veracity_papers.zoo.train_flow OUT [--steps N] [--device cuda]

Needs torch, numpy and safetensors, and no data. About two minutes on a GPU. Where the real pairs are at hand, their end-point
errors are written down beside the weights.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from veracity.trainers.training import initialised
from veracity_papers.data import files
from veracity_papers.data.particles import FILE, particle_pairs, piv
from veracity_papers.zoo.flow import NAME, FlowNet
from veracity_papers.zoo.storage import save
from veracity_papers.zoo.train import say


def fit(
    model: FlowNet,
    steps: int,
    generator: torch.Generator,
    *,
    batch: int = 32,
    side: int = 128,
    rate: float = 2e-3,
    report: Callable[[int, float], None] | None = None,
) -> FlowNet:
    """Train in place on fresh pairs, by the mean end-point error, over one cycle; returns the network in evaluation mode."""
    optimiser = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, max_lr=rate, total_steps=steps)
    model.train()
    for step in range(steps):
        pairs, flow = particle_pairs(batch, generator, side=side)
        error = end_point_error(model(pairs), flow).mean()
        optimiser.zero_grad(set_to_none=True)
        error.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        schedule.step()
        if report is not None and ((step + 1) % 50 == 0 or step + 1 == steps):
            report(step + 1, float(error.detach()))
    return model.eval()


def end_point_error(flow: Tensor, truth: Tensor) -> Tensor:
    """The mean distance (N,) between vectors of flows (N, 2, H, W), in pixels.

    >>> end_point_error(torch.zeros(1, 2, 1, 1), torch.tensor([3.0, 4.0]).reshape(1, 2, 1, 1))
    tensor([5.])
    """
    return ((flow - truth).square().sum(dim=1) + 1e-8).sqrt().mean(dim=(1, 2))


@torch.no_grad()
def judged(model: FlowNet, device: str) -> dict[str, float]:
    """The end-point error on fresh generated pairs of full size, and on the real ones if they are available, in pixels."""
    made = particle_pairs(16, torch.Generator(device=device).manual_seed(1), side=256)
    found = {"epe_generated": round(float(end_point_error(model(made[0]), made[1]).mean()), 4)}
    if files.locate(FILE) is not None:
        real = piv()
        errors = [end_point_error(model(x.to(device)), y.to(device)) for x, y in zip(real.frames.split(9), real.flow.split(9), strict=True)]
        found["epe_real"] = round(float(torch.cat(errors).mean()), 4)
    return found


def main() -> None:
    """Read the arguments, train, write the weights in half precision, print one line every thousand steps and one at the end."""
    parser = argparse.ArgumentParser(description="Train the flow network of the orbit recipes.")
    parser.add_argument("out", type=Path, help="the folder to write the weights to")
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    given = parser.parse_args()
    start = time.perf_counter()

    def told(**line: object) -> None:
        say({"model": NAME, **line, "seconds": round(time.perf_counter() - start, 1)})

    def report(step: int, error: float) -> None:
        if step % 500 == 0:
            told(step=step, epe=round(error, 4))

    model = initialised(FlowNet, given.seed).to(given.device)
    generator = torch.Generator(device=given.device).manual_seed(given.seed)
    fit(model, given.steps, generator, batch=given.batch, report=report)
    model.load_state_dict({key: value.half() for key, value in model.state_dict().items()})
    facts = {"steps": given.steps, "batch": given.batch, "seed": given.seed, **judged(model, given.device)}
    save(model.state_dict(), given.out / f"{NAME}.safetensors", half=True, **facts)
    told(**facts)


if __name__ == "__main__":
    main()
