"""The times of the interface in Chromium: python -m benchmarks.app_drag [digits points detection piv] [--moves 120] [--threads 1]

The four applications of the NERO paper with their real models, live, each shown by a server of its own process. A mouse drags along one
sample's orbit, place by place. Timed from the pointer's event are the first answer for that very place on screen (of one model at
least), its paint, and the paint of all models' answers; once with frames drawn at once and once as a display of 60 Hz asks for them.
Then the mouse moves every 16 ms without waiting, as a hand does: how many places were answered, and whether the last one is on screen.
Without names of applications, `benchmarks.app_open` follows: opening a large audit, choosing a sample, the list of 500 runs.
"""

from __future__ import annotations

import argparse
import math
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
from playwright.sync_api import Page, TimeoutError

from benchmarks import app_open
from benchmarks.browsing import PAINTED, UNLIMITED, browser, machine, process, quantiles
from benchmarks.timing import CONSOLE, empty_table
from veracity import OrbitEvaluation
from veracity.app.server import make_server
from veracity.core.registry import RECIPES
from veracity.inputs import as_inputs
from veracity.recipe import Scale

APPLICATIONS = {
    "digits": ("orbits-digits", 100, ("plain", "augmented"), 10.0),
    "digits, with the averaged network": ("orbits-digits", 100, (), None),
    "points": ("orbits-points", 6, (), None),
    "detection": ("orbits-detection", 2, (), 100.0),
    "piv": ("orbits-piv", 1, (), 250.0),
}
"""The recipe, how many samples, which models (all if none are named), and the target of the first answer's p50 in ms."""
PANELS = ("aggregate", "scatter", "individual", "input", "detail")
SLOW = {"piv": 24}
"""Fewer moves where each takes seconds."""
HURRY = 0.016
TRACK = """(() => {
  let move = null, place = '';
  const Native = WebSocket;
  window.WebSocket = class extends Native {
    constructor(...given) {
      super(...given);
      this.addEventListener('message', ({data}) => {
        const length = new DataView(data).getUint32(0, true);
        const header = JSON.parse(new TextDecoder().decode(new Uint8Array(data, 4, length)));
        place = JSON.stringify(header.at);
        if (move === null || place !== move.place) return;
        move.answers.push(performance.now());
        move.seconds.push(header.seconds);
        for (const model of Object.keys(header.metrics ?? {})) move.models.add(model);
        if (move.models.size >= document.querySelectorAll('button[data-model]').length) painted().then(() => {
          move.all = performance.now();
          move.done();
        });
      });
    }
    send(text) {
      super.send(text);
      if (move === null || move.start === null) return;
      move.asked = performance.now();
      move.place = JSON.stringify(JSON.parse(text).at);
    }
  };
  const shown = () => document.querySelector('[data-testid=detail] .subtitle').textContent;
  document.addEventListener('pointermove', (event) => {
    if (move !== null && move.start === null) move.start = event.timeStamp;
  }, true);
  window.watch = () => new MutationObserver(() => {
    if (move === null || move.start === null || move.first !== null || shown() === move.before) return;
    move.first = performance.now();
    painted().then(() => { move.paint = performance.now(); });
  }).observe(document.querySelector('[data-testid=detail]'), {subtree: true, childList: true, characterData: true});
  window.ready = () => {
    move = {before: shown(), start: null, asked: null, place: null, answers: [], seconds: [], models: new Set()};
    Object.assign(move, {first: null, paint: null, all: null});
    window.finished = new Promise((done, fail) => { move.done = done; setTimeout(() => fail('no answer for this place'), 60000); });
  };
  window.measured = async () => {
    await finished;
    while (move.paint === null) await painted();
    const {start, asked, answers, seconds, first, paint, all, models} = move;
    move = null;
    return {start, asked, answers, seconds, first, paint, all, models: [...models]};
  };
  window.answered = () => place;
})();"""
PLACES = """([layout, moves]) => {
  const plot = document.querySelector('[data-testid=individual]');
  const boxOf = (kind) => plot.querySelector(kind).getBoundingClientRect();
  const around = (box, far, step) => Array.from({length: moves}, (_, i) => {
    const angle = step * i * Math.PI / 180;
    return [box.x + box.width * (0.5 + far * Math.cos(angle)), box.y + box.height * (0.5 - far * Math.sin(angle))];
  });
  if (layout === 'polar') return around(boxOf('.plot-rim'), 0.4, 2);
  if (layout === 'heatmap' || layout === 'disk') return around(boxOf('.plot-rim'), 0.33, 7);
  const {x, y, width} = boxOf('.plot-cell');
  const tile = (number) => width / 2 + (number % 4) * (width + 3);
  return Array.from({length: moves}, (_, i) => [x + tile(i), y + tile(Math.floor(i / 4))]);
}"""

IN_SIGHT = """() => {
  const {top, bottom, height} = document.querySelector('[data-testid=detail]').getBoundingClientRect();
  return Math.max(0, Math.min(bottom, innerHeight) - Math.max(top, 0)) / height;
}"""


def evaluation(name: str, folder: Path) -> OrbitEvaluation:
    """An application of the paper on a few of its samples, with the models that ship."""
    recipe, samples, models, _ = APPLICATIONS[name]
    whole = RECIPES[recipe].assemble(folder, Scale.SMALL)
    kept = {one: model for one, model in whole.models.items() if one in models or not models}
    labels = None if whole.labels is None else whole.labels[:samples]
    inputs = as_inputs(whole.inputs).take(torch.arange(samples)).values
    found: OrbitEvaluation = replace(whole, models=kept, inputs=inputs, targets=whole.targets[:samples], labels=labels)
    return found


def serving(name: str, folder: str, threads: int, tell: Connection) -> None:
    """The server's process."""
    torch.set_num_threads(threads)
    made = evaluation(name, Path(folder))
    made.run(folder, progress=False)
    server, listening, address = make_server(folder, evaluation=made)
    tell.send(address)
    server.run(sockets=[listening])


@contextmanager
def served(name: str, threads: int) -> Iterator[str]:
    """The address of a server that shows an application."""
    with tempfile.TemporaryDirectory() as folder, process(serving, name, f"{folder}/run", threads) as (address, _):
        yield address


def opened(page: Page, address: str) -> None:
    """Open an orbit evaluation and wait for its five views and its models."""
    page.goto(address)
    for panel in PANELS:
        page.wait_for_selector(f'[data-testid="{panel}"][data-state="ready"]', timeout=120_000)
    page.wait_for_function("() => document.querySelector('[data-testid=status]').textContent.includes('Live')", timeout=120_000)
    page.evaluate("watch()")


def dragged(page: Page, places: Iterable[tuple[float, float]]) -> list[dict[str, Any]]:
    """Drag along the orbit, and wait at every place until all models have answered."""
    (x, y), *others = places
    page.mouse.move(x, y)
    page.mouse.down()
    page.wait_for_timeout(3000)
    found = []
    for number, (x, y) in enumerate(others):
        page.wait_for_timeout(7 * (number % 5))  # so that events fall anywhere between two frames
        page.evaluate("ready()")
        page.mouse.move(x, y)
        found.append(page.evaluate("measured()"))
    page.mouse.up()
    return found


def swept(page: Page, places: Iterable[tuple[float, float]]) -> tuple[int, bool]:
    """Drag without waiting: how many places were shown, and whether the last one is on screen in the end."""
    (x, y), *others = places
    page.evaluate("""() => {
      window.count = 0;
      new MutationObserver(() => { window.count++; }).observe(
        document.querySelector('[data-testid=detail] .subtitle'), {childList: true, characterData: true, subtree: true});
    }""")
    page.mouse.move(x, y)
    page.mouse.down()
    for x, y in others:
        due = time.perf_counter() + HURRY
        page.mouse.move(x, y)
        time.sleep(max(0.0, due - time.perf_counter()))
    page.mouse.up()
    shown = "() => decodeURIComponent(location.hash).includes('at=' + JSON.parse(answered()).join('_'))"
    try:
        page.wait_for_function(shown, timeout=30_000)
        last = True
    except TimeoutError:
        last = False
    return page.evaluate("count"), last


def measured(name: str, moves: int, threads: int) -> dict[str, Any]:
    """One application: the times of every place, by how frames are drawn, and the sweep."""
    found: dict[str, Any] = {}
    with served(name, threads) as address:
        for title, flags in (("at once", UNLIMITED), ("60 Hz", ())):
            with browser(*flags) as chromium:
                page = chromium.new_page(viewport={"width": 1440, "height": 900})
                page.add_init_script(PAINTED + TRACK)
                opened(page, address)
                body = page.locator('[data-testid="individual"] .plot-body')
                body.scroll_into_view_if_needed()
                page.get_by_test_id("identity").click()
                layout = page.locator('[data-testid="orbit"]').get_attribute("data-layout")
                places = page.evaluate(PLACES, [layout, moves + 1])
                found["in sight"] = page.evaluate(IN_SIGHT)
                dragged(page, places[:4])
                found[title] = dragged(page, places)
                found["sweep"] = swept(page, places)
                found["load"] = machine()
    return found


def spans(moves: list[dict[str, Any]]) -> dict[str, list[float]]:
    """Milliseconds of every move, and of its parts."""
    parts: dict[str, Callable[[dict[str, Any]], float]] = {
        "first": lambda one: one["first"] - one["start"],
        "paint": lambda one: one["paint"] - one["start"],
        "all": lambda one: one["all"] - one["start"],
        "page before": lambda one: one["asked"] - one["start"],
        "models": lambda one: 1000 * sum(one["seconds"]),
        "way": lambda one: one["answers"][-1] - one["asked"] - 1000 * sum(one["seconds"]),
        "page after": lambda one: one["all"] - one["answers"][-1],
    }
    return {name: [of(one) for one in moves if math.isfinite(of(one))] for name, of in parts.items()}


def main(names: Iterable[str], moves: int, threads: int) -> None:
    """Print the times of the applications."""
    CONSOLE.print(machine(), highlight=False)
    columns = ("models", "frames", "first answer, p50", "p90", "painted, p50", "p90", "all painted, p50", "p90", "target")
    table = empty_table(f"From the pointer's event (ms); {threads} threads for models", "application", *columns)
    where = empty_table("Where the time goes (p50, ms)", "application", "frames", "page, before", "models", "way", "page, after, painted")
    said = []
    for name in names:
        found = measured(name, SLOW.get(name, moves), threads)
        target = APPLICATIONS[name][3]
        for frames in ("at once", "60 Hz"):
            times = spans(found[frames])
            figures = [value for part in ("first", "paint", "all") for value in quantiles(times[part], 0.5, 0.9)]
            table.add_row(name, str(len(found[frames][0]["models"])), frames, *figures, "" if target is None else f"{target:.0f}")
            parts = [quantiles(times[part], 0.5)[0] for part in ("page before", "models", "way", "page after")]
            where.add_row(name, frames, *parts)
        count, last = found["sweep"]
        said.append(
            f"{name}: a move every 16 ms, {count} of {len(found['60 Hz'])} places shown, the last one {'' if last else 'NOT '}on screen; "
            f"{found['in sight']:.0%} of the detail in sight at 1440 x 900; {found['load']}."
        )
    CONSOLE.print(table)
    CONSOLE.print(where)
    for line in said:
        CONSOLE.print(line, highlight=False)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="APPLICATION", help=f"some of {'; '.join(APPLICATIONS)}")
    parser.add_argument("--moves", type=int, default=120, help="places of a drag")
    parser.add_argument("--threads", type=int, default=1, help="threads of the models")
    parser.add_argument("--million", help="the folder of an audit of a million samples; made if there is none")
    given = parser.parse_args()
    main(given.names or APPLICATIONS, given.moves, given.threads)
    if not given.names:
        app_open.main(folder=given.million)
