"""From a drag to new data on screen, in Chromium: python -m benchmarks.app_drag [--moves 180] [--samples 10000] [--threads 1]

The digits models of the zoo on MNIST, live, shown by a server of its own process. Part one drags along one digit's orbit, move by
move: the time from the pointer's event until the detail shows the answer for that very place, and until the frame that paints it.
Part two moves the pointer every 16 ms without waiting, as a hand does: how many answers were shown, and whether the last place is
the one on screen. Part three opens a run of many samples: the time to draw its scatter plot, to choose a point, to draw a lasso.
"""

from __future__ import annotations

import argparse
import multiprocessing
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import torch
from playwright.sync_api import Page, sync_playwright
from rich.console import Console
from rich.table import Table

from veracity import OrbitEvaluation
from veracity.app.server import make_server
from veracity.orbits import Classification, RotationOrbit
from veracity_papers.data.mnist import CLASSES, mnist
from veracity_papers.zoo.orbit_digits import pretrained

MODELS = ("plain", "augmented")
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync")
PANELS = ("aggregate", "scatter", "individual", "input", "detail")
HAND = """
window.hand = (degrees, type) => {
  const body = document.querySelector('[data-testid=individual] .plot-body');
  const rim = body.querySelector('.plot-rim').getBoundingClientRect();
  const angle = degrees * Math.PI / 180, far = 0.4 * rim.width;
  const place = {clientX: rim.x + rim.width / 2 + far * Math.cos(angle), clientY: rim.y + rim.height / 2 - far * Math.sin(angle)};
  body.dispatchEvent(new PointerEvent(type, {...place, pointerId: 1, button: 0, buttons: 1, bubbles: true, isPrimary: true}));
};
window.shown = () => document.querySelector('[data-testid=detail] .subtitle').textContent;
"""
STEPS = """async (moves) => {
  const found = [];
  hand(0, 'pointerdown');
  for (let move = 1; move <= moves; move++) {
    const before = shown();
    const start = performance.now();
    const done = new Promise((resolve) => {
      const watch = new MutationObserver(() => { if (shown() !== before) { watch.disconnect(); resolve(performance.now() - start); } });
      watch.observe(document.querySelector('[data-testid=detail]'), {subtree: true, childList: true, characterData: true});
    });
    hand(2 * move, 'pointermove');
    const data = await done;
    await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve, 0)));
    found.push([data, performance.now() - start]);
  }
  hand(2 * moves, 'pointerup');
  return found;
}"""
SWEEP = """async (moves) => {
  let answers = 0;
  const watch = new MutationObserver(() => { answers++; });
  watch.observe(document.querySelector('[data-testid=detail] .subtitle'), {childList: true, characterData: true, subtree: true});
  hand(0, 'pointerdown');
  for (let move = 1; move <= moves; move++) {
    hand((2 * move + 5) % 360, 'pointermove');
    await new Promise((resolve) => setTimeout(resolve, 16));
  }
  const last = Math.round(2 * moves + 5) % 360;
  hand(last, 'pointerup');
  await new Promise((resolve) => setTimeout(resolve, 1500));
  watch.disconnect();
  return {answers, shown: shown(), last};
}"""


def evaluation(samples: int) -> OrbitEvaluation:
    """Two networks along the rotations of test digits."""
    x, y = mnist("test")
    models = {name: pretrained(name) for name in MODELS}
    task = Classification(classes=CLASSES)
    return OrbitEvaluation(models=models, inputs=x[:samples], targets=y[:samples], orbit=RotationOrbit(step=5.0), task=task)


def serving(folder: str, samples: int, threads: int, tell: Connection) -> None:
    """The server's process."""
    torch.set_num_threads(threads)
    made = evaluation(samples)
    made.run(folder)
    server, listening, address = make_server(folder, evaluation=made)
    tell.send(address)
    server.run(sockets=[listening])


@contextmanager
def served(samples: int, threads: int) -> Iterator[str]:
    """The address of a server of its own process."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    with tempfile.TemporaryDirectory() as folder:
        process = context.Process(target=serving, args=(str(Path(folder) / "run"), samples, threads, there), daemon=True)
        process.start()
        try:
            yield here.recv()
        finally:
            process.terminate()
            process.join()


def opened(page: Page, address: str) -> float:
    """Open the page and wait for its five views; the seconds that took."""
    page.goto(address)
    for panel in PANELS:
        page.wait_for_selector(f'[data-testid="{panel}"][data-state="ready"]', timeout=120_000)
    page.wait_for_function("() => document.querySelector('[data-testid=status]').textContent.includes('Live')")
    page.evaluate(HAND)
    return float(page.evaluate("performance.now()")) / 1e3


def chosen(page: Page) -> dict[str, float]:
    """Milliseconds to draw the scatter plot anew, to choose a sample, and to draw a lasso around half of the points."""
    timed = """async (act) => {
      const frame = () => new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve, 0)));
      const plot = document.querySelector('[data-testid=scatter] .plot-body'), box = plot.getBoundingClientRect();
      const send = (type, x, y) => plot.dispatchEvent(new PointerEvent(type, {
        clientX: box.x + x * box.width, clientY: box.y + y * box.height,
        pointerId: 2, button: 0, buttons: 1, bubbles: true, isPrimary: true,
      }));
      await frame();
      const start = performance.now();
      if (act === 'colour') {
        const choice = document.querySelector('[data-testid=colour]');
        choice.value = choice.value === 'mean' ? 'variance' : 'mean';
        choice.dispatchEvent(new Event('change'));
      } else if (act === 'choose') {
        const rank = document.querySelector('[data-testid=rank]');
        rank.value = String((Number(rank.value) + 997) % Number(rank.max));
        rank.dispatchEvent(new Event('input'));
      } else {
        send('pointerdown', 0.02, 0.02);
        for (const [x, y] of [[0.5, 0.02], [0.5, 0.8], [0.02, 0.8]]) send('pointermove', x, y);
        send('pointerup', 0.02, 0.03);
      }
      await frame();
      return performance.now() - start;
    }"""
    return {
        act: float(np.median([page.evaluate(timed, act) for _ in range(times)]))
        for act, times in (("colour", 6), ("choose", 20), ("lasso", 6))
    }


def quantiles(values: list[float]) -> list[str]:
    """The middle, the ninth decile and the largest."""
    return [f"{value:.1f}" for value in np.quantile(values, [0.5, 0.9, 1.0])]


def main(moves: int = 180, samples: int = 10_000, threads: int = 1) -> None:
    """Print all three parts."""
    console = Console()
    found: dict[str, Any] = {}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=list(FLAGS))
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        with served(100, threads) as address:
            opened(page, address)
            page.evaluate(STEPS, 20)
            found["steps"] = page.evaluate(STEPS, moves)
            found["sweep"] = page.evaluate(SWEEP, moves)
        with served(samples, threads) as address:
            found["open"] = opened(page, address)
            found["chosen"] = chosen(page)
            found["many"] = page.evaluate(STEPS, moves)
        browser.close()
    table = Table(title=f"{moves} moves, {len(MODELS)} models, {threads} threads (ms)", title_justify="left")
    for column in ("from the pointer's event until", "p50", "p90", "most"):
        table.add_column(column, justify="left" if not table.columns else "right")
    table.add_row("new data on screen, 100 digits", *quantiles([one[0] for one in found["steps"]]))
    table.add_row("painted, 100 digits", *quantiles([one[1] for one in found["steps"]]))
    table.add_row(f"new data on screen, {samples:,} digits", *quantiles([one[0] for one in found["many"]]))
    table.add_row(f"painted, {samples:,} digits", *quantiles([one[1] for one in found["many"]]))
    console.print(table)
    sweep, times = found["sweep"], found["chosen"]
    console.print(
        f"A move every 16 ms: {sweep['answers']} of {moves} places shown; the last was {sweep['last']}°, on screen is {sweep['shown']}."
    )
    console.print(
        f"{samples:,} digits: open in {found['open']:.1f} s; scatter of {len(MODELS) * samples:,} points in {times['colour']:.0f} ms, "
        f"a sample chosen in {times['choose']:.0f} ms, a lasso with its aggregate in {times['lasso']:.0f} ms (each until painted)."
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--moves", type=int, default=180, help="moves of the pointer")
    parser.add_argument("--samples", type=int, default=10_000, help="digits of the large run")
    parser.add_argument("--threads", type=int, default=1, help="threads of the models")
    given = parser.parse_args()
    main(given.moves, given.samples, given.threads)
