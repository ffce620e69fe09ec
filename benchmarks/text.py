"""What an audit of a text classifier costs over its bare model passes: python -m benchmarks.text

Six sentences are explained by integrated gradients over gates, and by a function around Captum's LayerIntegratedGradients as a user
would write it, and scored by Fast-GEF. The networks are a DistilBERT of 265,000 parameters with random weights, and the one of the
papers for SST-2, of 1.4 million. Every call of the model within the audit is counted by its rows; the floor makes the same calls on
plain token numbers, with a backward pass where the audit made one, and nothing else. With a strength that must be found first, the
audit also makes hundreds of copies of the weights; the passes of these copies belong to the floor, and their random numbers do not.

Seconds are those of the processor, in all threads, so other programs on the machine do not count.
"""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import captum.attr
import torch
from torch import Tensor, nn
from torch._C import _functorch as functorch

from benchmarks.timing import CONSOLE, empty_table, now, quiet
from veracity import Audit
from veracity.core.models import unwrap
from veracity.inputs import TextInputs
from veracity.inputs.text import GatedText
from veracity.scores import FastGEF
from veracity_papers.zoo.transformers import load_text, load_tokenizer, text_config

SENTENCES = (
    "a gorgeous , witty , touching movie .",
    "the story is dull and far too long",
    "one of the best films of the year",
    "it never quite comes to life",
    "an utterly charming comedy with a big heart and a sharp sense of humor",
    "bad",
)
CPU = torch.device("cpu")
MASK = 4
"""The number of the token that stands for a missing one."""


def by_hand(model: nn.Module, gates: Tensor, targets: Tensor, ids: Tensor, units: Tensor, *carried: Tensor) -> Tensor:
    """Integrated gradients of the word embedding, summed per token."""

    def forward(tokens: Tensor, *others: Tensor) -> Any:
        return model(others[0], tokens, *others[1:])

    embedding: Any = unwrap(model)
    method = captum.attr.LayerIntegratedGradients(forward, embedding.get_input_embeddings())
    missing = torch.where(units < 0, ids, MASK)
    found = method.attribute(ids, missing, target=targets, additional_forward_args=(gates, units, *carried), n_steps=50).sum(-1)
    return torch.zeros_like(gates).scatter_add_(1, units.clamp(min=0), torch.where(units < 0, 0.0, found))


def small_network() -> Any:
    """DistilBERT of two layers of width 64 over 3,002 words, 265,026 parameters, with random weights."""
    from transformers import DistilBertForSequenceClassification

    size = {"vocab_size": 3002, "dim": 64, "hidden_dim": 128, "n_layers": 2, "n_heads": 2, "max_position_embeddings": 24}
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        model = DistilBertForSequenceClassification(text_config("sst2", **size)).eval()
        for weights in model.parameters():
            if weights.ndim > 1:
                nn.init.normal_(weights, std=0.1)
    return model


@contextmanager
def counted() -> Iterator[Counter[tuple[int, bool]]]:
    """The rows of every call of a gated model, and whether gradients were taken; a pass of many copies counts once for each."""
    calls: Counter[tuple[int, bool]] = Counter()
    forward: Callable[..., Tensor] = GatedText.forward

    def spy(self: GatedText, gates: Tensor, *others: Tensor) -> Tensor:
        found = forward(self, gates, *others)
        copies = functorch.get_unwrapped(found).shape[functorch.maybe_get_bdim(found)] if functorch.is_batchedtensor(found) else 1
        calls[len(gates), torch.is_grad_enabled() and found.requires_grad] += copies
        return found

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
    """Measure all audits, and print their costs."""
    torch.set_num_threads(1)
    tokenizer = load_tokenizer("sst2")
    inputs = TextInputs(list(SENTENCES), tokenizer)
    columns = ("parameters", "explainer", "strength", "calls", "bare passes (s)", "audit (s)", "ratio", "by the clock (s)")
    table = empty_table("Fast-GEF on six sentences, processor seconds", *columns, left=3)
    for model in (small_network(), load_text("sst2")[0]):
        size = sum(weights.numel() for weights in model.parameters())
        for explainer in ("integrated_gradients", by_hand):
            for name, sigma in (("", 0.5), ("given", 0.5), ("found first", None)):  # the first one only warms up
                audit = Audit(models=model, inputs=inputs, explainers=[explainer], scores=[FastGEF(sigma=sigma)], controls=False)
                with tempfile.TemporaryDirectory() as folder, quiet(), counted() as calls:
                    start, busy = time.perf_counter(), time.process_time()
                    audit.run(folder, progress=False)
                    seconds, busy = time.perf_counter() - start, time.process_time() - busy
                if not name:
                    continue
                floor = min(floor_seconds(model, inputs, calls) for _ in range(2))
                label = explainer if isinstance(explainer, str) else "LayerIntegratedGradients by hand"
                numbers = (f"{calls.total():,}", f"{floor:.2f}", f"{busy:.2f}", f"{busy / floor:.2f}", f"{seconds:.2f}")
                table.add_row(f"{size:,}", label, name, *numbers)
    CONSOLE.print(table)


if __name__ == "__main__":
    main()
