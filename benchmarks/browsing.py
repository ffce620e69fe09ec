"""What the benchmarks of the interface share: a server of its own process, Chromium, and how busy the machine is."""

from __future__ import annotations

import multiprocessing
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import Browser, sync_playwright

FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync")
UNLIMITED = ("--disable-frame-rate-limit", "--disable-gpu-vsync")
"""Flags with which a frame is drawn at once, not when a display of 60 Hz asks for it."""
PAINTED = "window.painted = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0)));"
"""Resolves once the browser has painted what the page holds now."""


@contextmanager
def browser(*flags: str) -> Iterator[Browser]:
    """Chromium without a window."""
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=[*FLAGS, *flags])
        yield opened
        opened.close()


@contextmanager
def process(work: Callable[..., None], *arguments: Any) -> Iterator[tuple[Any, int]]:
    """What a new process says first, and its number; `work` gets the arguments and a connection to say it. It ends with the context."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    child = context.Process(target=work, args=(*arguments, there), daemon=True)
    child.start()
    there.close()
    try:
        yield here.recv(), child.pid or 0
    finally:
        child.terminate()
        child.join()


def resident(number: int, which: str = "VmRSS") -> float:
    """A process's resident memory in MiB, now or (VmHWM) at its peak."""
    lines = Path(f"/proc/{number}/status").read_text().splitlines()
    return next(float(line.split()[1]) / 1024 for line in lines if line.startswith(which))


def machine() -> str:
    """How busy the machine is, and how large."""
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    return f"load average {os.getloadavg()[0]:.2f} over the last minute, {os.cpu_count()} cores, {pages:.0f} GiB of memory, no GPU"


def quantiles(values: list[float], *of: float) -> list[str]:
    """The middle, the ninth decile and the largest, or other quantiles; "" of nothing."""
    return ["" if not values else f"{value:.1f}" for value in np.quantile(values or [0.0], of or (0.5, 0.9, 1.0))]
