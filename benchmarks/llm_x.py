"""LLM-x over the bare passes of its language model inside an audit: python -m benchmarks.llm_x [cpu|cuda] [texts]

SmolLM2 explains the papers' classifier of SST-2 under Fast-GEF with 25 copies. Every call of the language model within the audit is
kept with its arguments, and the floor is the same calls once more, with nothing around them. A package with its weights is needed.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, Literal

import torch

from benchmarks.timing import quiet, synchronise
from veracity import Audit
from veracity.explain import LanguageModel, LanguageModelExplainer
from veracity.inputs import TextInputs
from veracity.scores import FastGEF
from veracity_papers.data.texts import balanced, sst2
from veracity_papers.zoo.smollm2 import load_smollm2
from veracity_papers.zoo.transformers import load_text

METHODS: dict[Literal["rank", "generate"], str] = {"rank": "forward", "generate": "generate"}
"""What each mode calls on the language model."""


@contextmanager
def kept_calls(model: Any, method: str) -> Iterator[list[dict[str, Any]]]:
    """The arguments of every call of a method of the model within the block. Its signature stays, by which words are packed."""
    own, calls = getattr(model, method), list[dict[str, Any]]()

    @wraps(own)
    def call(*args: Any, **settings: Any) -> Any:
        assert not args
        calls.append(settings)
        return own(**settings)

    setattr(model, method, call)
    try:
        yield calls
    finally:
        delattr(model, method)


def compare(llm: LanguageModel, mode: Literal["rank", "generate"], device: torch.device, count: int) -> dict[str, Any]:
    """Seconds of an audit and of the language model's calls alone."""
    model, tokenizer = load_text("sst2")
    texts, labels = balanced(sst2("test"), count)
    asked = LanguageModelExplainer(model=llm.model, tokenizer=llm.tokenizer, mode=mode, task="judge a film review", batch=64)
    about: dict[str, Any] = {"inputs": TextInputs(texts, tokenizer), "targets": labels, "explainers": {"llm_x": asked}}
    audit = Audit(models=model.to(device), scores=[FastGEF(sigma=0.3)], controls=False, companions=False, **about)
    with tempfile.TemporaryDirectory() as folder, quiet(), kept_calls(llm.model, METHODS[mode]) as calls:
        start = time.perf_counter()
        audit.run(f"{folder}/run", progress=False)
        synchronise(device)
        ours = time.perf_counter() - start
    bare, work = 0.0, getattr(llm.model, METHODS[mode])
    with torch.no_grad():
        for settings in calls:
            synchronise(device)
            start = time.perf_counter()
            work(**settings)
            synchronise(device)
            bare += time.perf_counter() - start
    return {
        "mode": mode,
        "texts": count,
        "calls": len(calls),
        "floor": round(bare, 2),
        "audit": round(ours, 2),
        "ratio": round(ours / bare, 2),
    }


def main(device: str = "cpu", texts: str = "8") -> None:
    """Print a line for each mode, after a first run that warms up."""
    llm, place = load_smollm2(), torch.device(device)
    llm.model.to(place)
    compare(llm, "rank", place, 2)
    for mode in METHODS:
        print(json.dumps({"device": device, **compare(llm, mode, place, int(texts))}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
