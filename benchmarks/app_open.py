"""Opening large things in Chromium: python -m benchmarks.app_open [--samples 1000000] [--runs 500] [--million DIR]

An audit of a million samples, made as by `benchmarks.million` unless a folder holds it: the time until each of its panels is painted,
in a server that has just started and again; then samples are chosen, by a click in the list and by number. And the list of 500 runs,
copies of two small ones: the first paint, its rows, and all runs read. Times count from the start of the navigation. Last come the size
of the page's files and whether it asked anybody but its own server.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import shutil
import tempfile
import time
from contextlib import ExitStack
from multiprocessing.connection import Connection
from pathlib import Path

from playwright.sync_api import Browser, Page

from benchmarks import million
from benchmarks.browsing import PAINTED, browser, machine, process, quantiles, resident
from benchmarks.timing import CONSOLE, empty_table, quiet
from veracity import Audit, OrbitEvaluation
from veracity.app.server import make_server
from veracity.demo import digits
from veracity.orbits import Classification, RotationOrbit
from veracity.report.interactive.offline import bundled
from veracity.trainers.training import initialised
from veracity_papers.zoo.lenet import lenet

OPENINGS = 5
CHOICES = 24
PARTS = {
    "the page": "() => document.querySelector('[data-testid=audit]')",
    "distribution": "() => document.querySelector('[data-testid=spread][data-state=ready]')",
    "list of samples": "() => document.querySelector('[data-testid=samples][data-state=ready]')",
    "the first sample": "() => document.querySelector('[data-testid=sample][data-state=ready] [data-testid=subtitle]')"
    "?.textContent.startsWith('Sample') && !document.querySelector('[data-testid=maps] [data-state=loading]')",
    "two scores": "() => document.querySelector('[data-testid=scatter][data-state=ready]')",
    "numbers of the ranking": "() => { const board = document.querySelector('[data-testid=ranking]'); "
    "return board && !board.textContent.includes('reading…'); }",
}
"""The panels of an audit's page, in the order of their rows, and how each is known to be there."""
HOME = {
    "the page": "() => document.querySelector('[data-testid=runs] tbody tr')",
    "a screen of rows": "(runs) => document.querySelectorAll('[data-testid=runs] tbody tr').length >= Math.min(60, runs)",
    "all rows, all runs read": "(runs) => { const rows = document.querySelectorAll('[data-testid=runs] tbody tr'); "
    "return rows.length >= runs && ![...rows].some((row) => row.textContent.includes('not read yet')); }",
    "verdicts in sight": "() => { const rows = [...document.querySelectorAll('[data-testid=runs] tbody tr')]; "
    "const seen = rows.filter((row) => row.getBoundingClientRect().top < innerHeight); "
    "return seen.length > 0 && seen.every((row) => !['', 'reading…', undefined].includes(row.querySelector('.c-verdict')?.textContent)); }",
}
WATCH = """(given) => {
  const waiting = Object.entries(TESTS);
  window.seen = {};
  const look = () => {
    for (const [name, test] of waiting) if (!(name in seen) && test(given)) {
      seen[name] = null;
      painted().then(() => { seen[name] = performance.now(); });
    }
    if (Object.keys(seen).length < waiting.length) setTimeout(look, 4);
  };
  look();
}"""


def serving(folder: str, tell: Connection) -> None:
    """The server's process."""
    server, listening, address = make_server(folder)
    tell.send(address)
    server.run(sockets=[listening])


def opened(page: Page, address: str, tests: dict[str, str], given: int) -> dict[str, float]:
    """Milliseconds from the navigation's start until each part is painted; first of all the first paint of anything."""
    page.goto(address, wait_until="commit")
    written = ", ".join(f"{json.dumps(name)}: {test}" for name, test in tests.items())
    page.evaluate(WATCH.replace("TESTS", f"{{{written}}}"), given)
    page.wait_for_function(f"() => Object.values(seen).filter((one) => one !== null).length === {len(tests)}", timeout=600_000)
    first = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? NaN")
    return {"first paint": first, **page.evaluate("seen")}


def visits(chromium: Browser, address: str, tests: dict[str, str], given: int, times: int, asked: set[str]) -> list[dict[str, float]]:
    """Several visits, each in a new context, as by somebody who has never been here; what the page asks for is added to `asked`."""
    found = []
    for _ in range(times):
        with ExitStack() as stack:
            context = chromium.new_context(viewport={"width": 1440, "height": 900})
            stack.callback(context.close)
            page = context.new_page()
            page.on("request", lambda request: asked.add(request.url))
            page.add_init_script(PAINTED)
            found.append(opened(page, address, tests, given))
    return found


SHOWN = """(sample) => {
  const board = document.querySelector('[data-testid=sample]');
  return board.dataset.state === 'ready' && board.querySelector('[data-testid=subtitle]').textContent.startsWith(`Sample ${sample} of`)
    && !board.querySelector('[data-testid=maps] [data-state=loading]');
}"""
CHOOSE = f"""async ([how, sample]) => {{
  const shown = {SHOWN};
  const start = performance.now();
  if (how === 'click') document.querySelector(`[data-testid=cases] li[data-sample="${{sample}}"] button`).click();
  else {{
    const field = document.querySelector('[data-testid=case-find]');
    field.value = String(sample);
    field.dispatchEvent(new Event('change'));
  }}
  while (!shown(sample)) await new Promise((resolve) => setTimeout(resolve, 2));
  await painted();
  return performance.now() - start;
}}"""


def chosen(page: Page, samples: int) -> dict[str, list[float]]:
    """Milliseconds until a chosen sample is painted with its explanations: samples of the list, and any by number."""
    listed = [int(one) for one in page.eval_on_selector_all("[data-testid=cases] li", "all => all.map((one) => one.dataset.sample)")]
    keyed = random.Random(0)
    found = {"click": [page.evaluate(CHOOSE, ["click", one]) for one in listed[1:CHOICES]]}
    return {**found, "number": [page.evaluate(CHOOSE, ["number", keyed.randrange(samples)]) for _ in range(CHOICES)]}


def audited(samples: int, folder: Path) -> float | None:
    """An audit of that many samples, made if the folder does not hold it; the seconds that took."""
    if (folder / "manifest.json").exists():
        return None
    start = time.perf_counter()
    with quiet():
        million.audit(samples).run(folder, progress=False)
    return time.perf_counter() - start


def small(folder: Path) -> list[Path]:
    """A small audit and a small orbit evaluation of digits."""
    x, y = digits("test", padding=10)
    net = initialised(lenet, seed=0)
    audit = Audit(models={"LeNet": net}, inputs=x[:16], targets=y[:16], explainers=["saliency", "gradient"], scores=["max_sensitivity"])
    orbits = OrbitEvaluation(
        models={"LeNet": net},
        inputs=x[:16],
        targets=y[:16],
        orbit=RotationOrbit(step=45.0),
        task=Classification(classes=tuple("0123456789")),
    )
    with quiet():
        audit.run(folder / "audit", progress=False).save_report(folder / "audit" / "report.html")
        orbits.run(folder / "orbits", progress=False)
    return [folder / "audit", folder / "orbits"]


def listed(runs: int, folder: Path) -> None:
    """A folder of many runs, in ten folders."""
    with tempfile.TemporaryDirectory() as made:
        kinds = small(Path(made))
        for number in range(runs):
            shutil.copytree(kinds[number % len(kinds)], folder / f"week {number % 10}" / f"run {number}")


def show(title: str, cold: dict[str, float], warm: list[dict[str, float]]) -> None:
    """Print the times of the parts of a page."""
    table = empty_table(title, "painted", "first visit (ms)", f"{len(warm)} more visits, p50 (ms)", "most (ms)")
    for name, value in cold.items():
        table.add_row(name, f"{value:.0f}", *(f"{float(one):.0f}" for one in quantiles([visit[name] for visit in warm], 0.5, 1.0)))
    CONSOLE.print(table)
    CONSOLE.print(machine(), highlight=False)


def large_audit(chromium: Browser, folder: str, samples: int, asked: set[str]) -> None:
    """Print how long a large audit takes to open, and to choose a sample of it."""
    with process(serving, folder) as (address, number):
        cold = visits(chromium, address, PARTS, 0, 1, asked)[0]
        show(f"Opening an audit of {samples:,} samples; target 2,000 ms", cold, visits(chromium, address, PARTS, 0, OPENINGS, asked))
        page = chromium.new_page(viewport={"width": 1440, "height": 900})
        page.add_init_script(PAINTED)
        opened(page, address, PARTS, 0)
        times = chosen(page, samples)
        page.close()
        table = empty_table("Choosing a sample there (ms)", "until its explanations are painted", "p50", "p90", "most")
        table.add_row(f"a click in the list, {len(times['click'])} times", *quantiles(times["click"]))
        table.add_row(f"by number, {len(times['number'])} times", *quantiles(times["number"]))
        CONSOLE.print(table)
        sizes = f"{resident(number):.0f} MiB, at its peak {resident(number, 'VmHWM'):.0f} MiB"
        CONSOLE.print(f"The server's memory: {sizes}. {machine()}.", highlight=False)


def many_runs(chromium: Browser, folder: str, runs: int, asked: set[str]) -> None:
    """Print how long the list of many runs takes to open."""
    with process(serving, folder) as (address, _):
        cold = visits(chromium, address, HOME, runs, 1, asked)[0]
        show(f"The list of {runs} runs", cold, visits(chromium, address, HOME, runs, OPENINGS, asked))


def shipped(asked: set[str]) -> str:
    """How large the page is that ships, and whether it asked anybody but its own server."""
    files = {name: bundled(name).encode() for name in ("app.js", "app.css")}
    sizes = ", ".join(f"{name} {len(data):,} bytes" for name, data in files.items())
    outside = [one for one in asked if not one.startswith(("http://127.0.0.1:", "data:", "blob:"))]
    packed = len(gzip.compress(b"".join(files.values())))
    return f"{sizes}, together {packed:,} by gzip; {len(outside)} of {len(asked)} addresses asked for lie outside of the server."


def main(samples: int = 1_000_000, runs: int = 500, folder: str | None = None) -> None:
    """Print the times of a large audit and of a long list, and the size of the page."""
    with tempfile.TemporaryDirectory() as made, browser() as chromium:
        asked: set[str] = set()
        large = Path(folder or f"{made}/audit")
        seconds = audited(samples, large)
        CONSOLE.print(
            f"An audit of {samples:,} samples: {'stored before' if seconds is None else f'made in {seconds:.0f} s'}.", highlight=False
        )
        large_audit(chromium, str(large), samples, asked)
        listed(runs, Path(made, "runs"))
        many_runs(chromium, f"{made}/runs", runs, asked)
        CONSOLE.print(shipped(asked), highlight=False)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--samples", type=int, default=1_000_000, help="samples of the large audit")
    parser.add_argument("--runs", type=int, default=500, help="runs of the list")
    parser.add_argument("--million", help="the folder of the large audit; made if there is none")
    given = parser.parse_args()
    main(given.samples, given.runs, given.million)
