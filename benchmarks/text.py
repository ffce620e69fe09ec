"""What an audit of a text classifier costs over its bare model passes: python -m benchmarks.text

The network is the small DistilBERT of the papers for SST-2, on six sentences, explained by integrated gradients over gates and scored
by Fast-GEF. Every call of the model within the audit is counted by its rows; the floor makes the same calls on plain token numbers,
with a backward pass where the audit made one, and nothing else. With a strength that must be found first, the audit also makes
hundreds of copies of the weights, each with random numbers of its own, which other threads draw ahead.
"""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from benchmarks.timing import CONSOLE, empty_table, now, quiet
from veracity import Audit
from veracity.inputs import TextInputs
from veracity.inputs.text import GatedText
from veracity.scores import FastGEF
from veracity_papers.zoo.transformers import load_text

SENTENCES = (
    "a gorgeous , witty , seductive movie .",
    "the story is dull and far too long",
    "one of the best films of the year",
    "it never quite comes to life",
    "an utterly charming comedy with a big heart and a sharp sense of timing",
    "bad",
)
CPU = torch.device("cpu")


@contextmanager
def counted() -> Iterator[Counter[tuple[int, bool]]]:
    """The rows of every call of a gated model, and whether gradients were taken."""
    calls: Counter[tuple[int, bool]] = Counter()
    forward: Callable[..., Tensor] = GatedText.forward

    def spy(self: GatedText, gates: Tensor, *others: Tensor) -> Tensor:
        calls[len(gates), torch.is_grad_enabled() and gates.requires_grad] += 1
        return forward(self, gates, *others)

    GatedText.forward = spy  # type: ignore[method-assign, assignment]
    try:
        yield calls
    finally:
        GatedText.forward = forward  # type: ignore[method-assign]


def floor_seconds(model: Any, inputs: TextInputs, calls: Counter[tuple[int, bool]]) -> float:
    """The same calls on plain token numbers."""
    ids, mask = inputs.encoding["input_ids"], inputs.encoding["attention_mask"]
    vectors = model.get_input_embeddings()(ids).detach()
    start = now(CPU)
    for (rows, slopes), count in calls.items():
        row = torch.arange(rows) % len(ids)
        for _ in range(count):
            if slopes:
                leaf = vectors[row].requires_grad_()
                torch.autograd.grad(model(inputs_embeds=leaf, attention_mask=mask[row]).logits[:, 0].sum(), leaf)
            else:
                with torch.no_grad():
                    model(input_ids=ids[row], attention_mask=mask[row])
    return now(CPU) - start


def main() -> None:
    """Measure both audits, and print their costs."""
    torch.set_num_threads(1)
    model, tokenizer = load_text("sst2")
    inputs = TextInputs(list(SENTENCES), tokenizer)
    columns = ("strength", "calls", "audit (s)", "bare passes (s)", "ratio", "CPU (s)", "ratio of CPU")
    table = empty_table("Fast-GEF of integrated gradients over gates", *columns)
    for name, sigma in (("", 0.5), ("given", 0.5), ("found first", None)):  # the first one only warms up
        audit = Audit(models=model, inputs=inputs, explainers=["integrated_gradients"], scores=[FastGEF(sigma=sigma)], controls=False)
        with tempfile.TemporaryDirectory() as folder, quiet(), counted() as calls:
            start, busy = time.perf_counter(), time.process_time()
            audit.run(folder)
            seconds, busy = time.perf_counter() - start, time.process_time() - busy
        if not name:
            continue
        floor = min(floor_seconds(model, inputs, calls) for _ in range(2))
        ratios = (f"{seconds / floor:.2f}", f"{busy:.2f}", f"{busy / floor:.2f}")
        table.add_row(name, f"{calls.total():,}", f"{seconds:.2f}", f"{floor:.2f}", *ratios)
    CONSOLE.print(table)


if __name__ == "__main__":
    main()
