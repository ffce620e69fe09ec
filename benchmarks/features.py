"""What features of layers cost under GEF: processor seconds over bare passes, and the peak of memory, for models of any size.

    python -m benchmarks.features               # stories260K's size
    python -m benchmarks.features 576 10 --memory   # width 576 and 10 layers: 120 MB of weights
    python -m benchmarks.features --encoders 4 --lengths   # what further encoders of the same layers cost, for texts of many lengths

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
from veracity.engine.memory import forget_outputs
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
    parser.add_argument("--encoders", type=int, default=1, help="encoders per layer")
    parser.add_argument("--lengths", action="store_true", help="texts of different lengths")
    parser.add_argument("--memory", action="store_true", help="one layer and two draws only, for the peak of memory")
    given = parser.parse_args()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = SmallLM(Shape(512, given.width, given.layers, 8, 512, 3 * given.width, shared=2, rotary=True)).eval()
        ids = torch.randint(3, 512, (given.texts, LENGTH))
        encoders = [
            LinearEncoder(torch.randn(given.width, given.features), b_enc=-torch.ones(given.features)) for _ in range(given.encoders)
        ]
    tokenizer = PieceTokenizer(tuple(map(str, range(512))), special=3, pad_token_id=2)
    ends = LENGTH - torch.arange(given.texts) % (LENGTH - 8) if given.lengths else torch.full((given.texts,), LENGTH)
    mask = (torch.arange(LENGTH) < ends[:, None]).long()
    inputs = TextInputs.of_encoding({"input_ids": torch.where(mask > 0, ids, 2), "attention_mask": mask}, tokenizer)
    chosen, draws = range(1 if given.memory else given.layers), 2 if given.memory else DRAWS
    score = FastGEF(measure=cosine_distance, normalise=False, sigma=0.3, steps=LEVELS, draws=draws)

    def seconds_of(count: int) -> float:
        """Processor seconds of an audit with so many encoders of each layer."""
        explainers = {
            f"layer {layer}, {number}": SparseFeatures(encoder=encoders[number], layer=f"core.layers.{layer}")
            for layer in chosen
            for number in range(count)
        }
        audit = Audit(models={"lm": model}, inputs=inputs, explainers=explainers, scores=[score], companions=False, controls=False)
        forget_outputs()
        with tempfile.TemporaryDirectory() as folder:
            audit.prepare()
            start = time.process_time()
            audit.run(folder, progress=False)
            return time.process_time() - start

    weights = sum(one.nbytes for one in model.parameters()) / (1 << 20)
    one_pass = bare(model, ids)
    before = peak()
    seconds = seconds_of(1)
    passes = LEVELS * draws + 1  # scores and the activations of all layers together
    apart = (len(chosen) + 1) * passes  # if every layer, and the scores, had a pass of its own
    print(f"weights {weights:.1f} MB, peak {before:.0f} MB before and {peak():.0f} MB after: {(peak() - before) / weights:.1f} models more")
    print(f"{len(chosen)} layers: {seconds:.2f} s; {passes} bare passes take {passes * one_pass:.2f} s", end="; ")
    print(f"with a pass of its own for each layer they would take {apart * one_pass:.2f} s")
    if given.encoders > 1:
        more = (seconds_of(given.encoders) - seconds) / (len(chosen) * (given.encoders - 1))
        print(f"each further encoder of a layer: {more:.3f} s")


if __name__ == "__main__":
    main()
