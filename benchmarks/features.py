"""What features of layers cost under GEF: processor seconds over bare passes, and the peak of memory, for models of any size.

    python -m benchmarks.features               # stories260K's size
    python -m benchmarks.features 576 10 --memory   # width 576 and 10 layers: 120 MB of weights

Copies of the model are made in place, one at a time, so that the peak is a few models, never the 25 of five levels and five draws.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time

import torch
from torch import nn

from veracity import Audit
from veracity.explain.sparse import LinearEncoder, SparseFeatures
from veracity.inputs import TextInputs
from veracity.measure import cosine_distance
from veracity.scores import FastGEF
from veracity_papers.zoo.language_models import PieceTokenizer, Shape, SmallLM

TEXTS, LENGTH, LEVELS, DRAWS = 64, 48, 5, 5


def peak() -> float:
    """The largest memory of this process so far, in MB."""
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return used / (1 << 20 if sys.platform == "darwin" else 1 << 10)


def bare(model: nn.Module, ids: torch.Tensor) -> float:
    """Seconds of a processor for one pass of all texts."""
    with torch.no_grad():
        model(ids)
        start = time.process_time()
        model(ids)
    return time.process_time() - start


def main() -> None:
    """Measure one audit of every layer, beside bare passes of the same texts and copies."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("width", type=int, nargs="?", default=64)
    parser.add_argument("layers", type=int, nargs="?", default=5)
    parser.add_argument("--texts", type=int, default=TEXTS)
    parser.add_argument("--features", type=int, default=1024)
    parser.add_argument("--memory", action="store_true", help="one layer and two draws only, for the peak of memory")
    given = parser.parse_args()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = SmallLM(Shape(512, given.width, given.layers, 8, 512, 3 * given.width, shared=2, rotary=True)).eval()
        ids = torch.randint(3, 512, (given.texts, LENGTH))
        encoder = LinearEncoder(torch.randn(given.width, given.features), b_enc=-torch.ones(given.features))
    tokenizer = PieceTokenizer(tuple(map(str, range(512))), special=3, pad_token_id=2)
    inputs = TextInputs.of_encoding({"input_ids": ids, "attention_mask": torch.ones_like(ids)}, tokenizer)
    chosen = range(1 if given.memory else given.layers)
    explainers = {f"layer {one}": SparseFeatures(encoder=encoder, layer=f"core.layers.{one}") for one in chosen}
    draws = 2 if given.memory else DRAWS
    score = FastGEF(measure=cosine_distance, normalise=False, sigma=0.3, steps=LEVELS, draws=draws)
    audit = Audit(models={"lm": model}, inputs=inputs, explainers=explainers, scores=[score], companions=False, controls=False)
    weights = sum(one.nbytes for one in model.parameters()) / (1 << 20)
    one_pass = bare(model, ids)
    before = peak()
    with tempfile.TemporaryDirectory() as folder:
        audit.prepare()
        start = time.process_time()
        audit.run(folder, progress=False)
        seconds = time.process_time() - start
    passes = 2 * (LEVELS * draws + 1)  # scores, and the activations of all layers together
    apart = passes + (len(explainers) - 1) * (LEVELS * draws + 1)  # if every layer had a pass of its own
    print(f"weights {weights:.1f} MB, peak {before:.0f} MB before and {peak():.0f} MB after: {(peak() - before) / weights:.1f} models more")
    print(f"{len(explainers)} layers: {seconds:.2f} s; {passes} bare passes take {passes * one_pass:.2f} s", end="; ")
    print(f"with a pass of its own for each layer they would take {apart * one_pass:.2f} s")


if __name__ == "__main__":
    main()
