"""Every kind of model against every family of scores, by running it: python -m benchmarks.adapters

A cell is the value of the family's score for one explainer that fits the model, or the number of the sentence with which it is refused.
Networks are tiny and mostly untrained: the values say that a score ran, not how good an explainer is. Rows are printed as they come.
Name rows to fill only these: python -m benchmarks.adapters forest onnx
"""

from __future__ import annotations

import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor, nn

import veracity
from veracity import scores as of
from veracity.inputs import SeveralInputs, TextInputs
from veracity.core.spaces import Space
from veracity.perturb import Flips, NodePermutations, Permutations
from veracity.walk import Genetic, GradientSearch, MonteCarlo, SubsetSimulation

SAMPLES = 6
FOLDS = 2
SHUFFLED = Permutations(axis=-1)


@dataclass(frozen=True)
class Case:
    """A model with its data, an explainer and a symmetry that fit it, and `again`: how to train it anew without some samples."""

    model: Any
    inputs: Any
    targets: Any
    explainer: Any = "feature_ablation"
    symmetry: Space = SHUFFLED
    again: Callable[[int], Any] | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Family:
    """A score of a family, with small settings, and what it needs besides."""

    score: Any
    symmetry: bool = False
    folds: bool = False


AROUND: dict[str, Any] = {"radius": 0.4, "range": None}
FEW = MonteCarlo(draws=3)
FAMILIES: dict[str, Family] = {
    "masks": Family(of.FaithfulnessCorrelation(nr_runs=8, subset_size=2)),
    "curves": Family(of.Insertion()),
    "content": Family(of.Sparseness()),
    "sensitivity": Family(of.MaxSensitivity(walk=FEW)),
    "relative stability": Family(of.RelativeInputStability(walk=FEW)),
    "hidden layer": Family(of.RelativeRepresentationStability(walk=FEW)),
    "symmetry": Family(of.Invariance(walk=FEW), symmetry=True),
    "model symmetry": Family(of.ModelInvariance(walk=FEW), symmetry=True),
    "input noise": Family(of.InputAlignment(sigma=0.3, draws=2)),
    "other class": Family(of.RandomLogit()),
    "genetic search": Family(of.SolHat(walk=Genetic(population=8, generations=3, elites=2), **AROUND)),
    "gradient search": Family(of.SolHat(walk=GradientSearch(population=2, steps=3), **AROUND)),
    "subset simulation": Family(of.LnPHat(walk=SubsetSimulation(population=10, steps=2, floor=-6.0), **AROUND)),
    "weights": Family(of.FastGEF(sigma=0.3, draws=2)),
    "randomised layers": Family(of.MPRT(walk=MonteCarlo(draws=1))),
    "refits": Family(of.RefitGEF(draws=2, steps=3)),
    "retraining (MeGe)": Family(of.MeGe(), folds=True),
    "retraining (ReCo)": Family(of.ReCo(), folds=True),
}
ORBITS = "orbits"


def seeded(build: Callable[[], Any], seed: int = 0) -> Any:
    """A model whose weights depend on the seed alone and are large enough to tell inputs apart."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        model = build()
        for one in model.parameters():
            if one.ndim > 1:
                nn.init.normal_(one, std=0.3)
    return model.eval()


def network(*sizes: int, seed: int = 0) -> nn.Sequential:
    """Linear layers with tanh between them."""
    layers = [one for before, after in pairwise(sizes) for one in (nn.Linear(before, after), nn.Tanh())]
    made: nn.Sequential = seeded(lambda: nn.Sequential(*layers[:-1]), seed)
    return made


class TwoInputs(nn.Module):
    """An image and a table."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.head = nn.Conv2d(1, 4, 3), nn.Linear(4 + 2, 3)

    def forward(self, image: Tensor, table: Tensor) -> Tensor:
        """Scores (N, 3)."""
        scores: Tensor = self.head(torch.cat([self.conv(image).relu().mean((2, 3)), table], dim=1))
        return scores


@cache
def iris() -> tuple[Any, Any]:
    """Four standardised columns and three classes, shuffled."""
    x, y = load_iris(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    return StandardScaler().fit_transform(x)[order], y[order]


def tables() -> tuple[Any, Any]:
    """The audited rows of iris, in float32, and their classes."""
    x, y = iris()
    return x[:SAMPLES].astype(np.float32), y[:SAMPLES]


def fitted(estimator: Any, frame: bool = False) -> Case:
    """An estimator fitted to iris, and fitted again without one fold of the audited rows."""
    rows, y = iris()
    x = pd.DataFrame(rows, columns=["sepal length", "sepal width", "petal length", "petal width"]) if frame else rows

    def again(fold: int) -> Any:
        keep = np.r_[np.flatnonzero(np.arange(SAMPLES) % FOLDS != fold), np.arange(SAMPLES, len(y))]
        return clone(estimator).fit(x.iloc[keep] if frame else x[keep], y[keep])

    return Case(estimator.fit(x, y), x[:SAMPLES], y[:SAMPLES], again=again, settings={"training": (x, y)})


def module() -> Case:
    again = lambda fold: network(4, 8, 3, seed=fold)  # noqa: E731
    return Case(network(4, 8, 3), *tables(), "integrated_gradients", again=again)


def tensor_function() -> Case:
    weights = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))

    def again(fold: int) -> Any:
        return lambda rows: torch.tanh(rows @ weights.roll(fold, 0).to(rows))

    return Case(again(0), *tables(), "integrated_gradients", again=again)


def function() -> Case:
    weights = np.random.default_rng(0).normal(size=(4, 3))

    def again(fold: int) -> Any:
        return lambda rows: np.tanh(rows @ np.roll(weights, fold, 0))

    return Case(again(0), *tables(), again=again)


def forest() -> Case:
    return fitted(RandomForestClassifier(5, random_state=0))


def pipeline() -> Case:
    return fitted(make_pipeline(StandardScaler(), LogisticRegression()), frame=True)


def xgboost() -> Case:
    import xgboost as library

    return fitted(library.XGBClassifier(n_estimators=3, n_jobs=1))


def lightgbm() -> Case:
    import lightgbm as library

    return fitted(library.LGBMClassifier(n_estimators=3, n_jobs=1, verbose=-1))


def exported(net: nn.Module, columns: int = 4) -> Path:
    """The ONNX file of a network on tables."""
    path = Path(tempfile.mkdtemp()) / "network.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        row = torch.zeros(1, columns)
        torch.onnx.export(net, (row,), path, input_names=["x"], dynamic_axes={"x": {0: "rows"}}, dynamo=False, verbose=False)
    return path


def onnx() -> Case:
    return Case(exported(network(4, 8, 3)), *tables(), again=lambda fold: exported(network(4, 8, 3, seed=fold)))


def text() -> Case:
    from tokenizers import BertWordPieceTokenizer
    from transformers import DistilBertConfig, DistilBertForSequenceClassification, PreTrainedTokenizerFast

    words = "[PAD] [UNK] [CLS] [SEP] [MASK] a fine dull film with no heart not very".split()
    pieces = BertWordPieceTokenizer({word: number for number, word in enumerate(words)})._tokenizer
    special = {f"{kind}_token": f"[{kind.upper()}]" for kind in ("pad", "unk", "cls", "sep", "mask")}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=pieces, **special)
    config = DistilBertConfig(vocab_size=len(words), dim=8, hidden_dim=16, n_layers=2, n_heads=2, max_position_embeddings=12)
    texts = ["a fine film", "a dull film with no heart", "not a fine film", "a very dull film", "a film with heart", "not very dull"]

    def again(fold: int) -> Any:
        return seeded(lambda: DistilBertForSequenceClassification(config), fold)

    labels = np.arange(SAMPLES) % 2
    return Case(again(0), TextInputs(texts, tokenizer), labels, "integrated_gradients", again=again)


def vision() -> Case:
    from transformers import ViTConfig, ViTForImageClassification

    sizes = {"image_size": 8, "patch_size": 4, "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}

    def again(fold: int) -> Any:
        return seeded(lambda: ViTForImageClassification(ViTConfig(**sizes, num_labels=3)), fold)

    x = torch.rand(SAMPLES, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    return Case(again(0), x, np.arange(SAMPLES) % 3, "integrated_gradients", Flips(), again)


def several() -> Case:
    draws = torch.Generator().manual_seed(0)
    parts = {"image": torch.rand(SAMPLES, 1, 6, 6, generator=draws), "table": torch.rand(SAMPLES, 2, generator=draws)}
    again = lambda fold: seeded(TwoInputs, fold)  # noqa: E731
    return Case(again(0), SeveralInputs(parts, explain="image"), np.arange(SAMPLES) % 3, "integrated_gradients", Flips(), again)


def graphs() -> Case:
    from torch_geometric.data import Data
    from torch_geometric.nn import GCNConv, global_add_pool

    class Graphs(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.head = GCNConv(3, 8), nn.Linear(8, 2)

        def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
            """Scores (N, 2)."""
            scores: Tensor = self.head(global_add_pool(self.conv(x, edge_index).relu(), batch))
            return scores

    draws = torch.Generator().manual_seed(0)
    rings = [torch.stack([torch.arange(size), (torch.arange(size) + 1) % size]) for size in (3, 4, 5) * 2]
    data = [Data(x=torch.rand(ring.shape[1], 3, generator=draws), edge_index=torch.cat([ring, ring.flip(0)], 1)) for ring in rings]
    again = lambda fold: seeded(Graphs, fold)  # noqa: E731
    return Case(again(0), data, np.arange(SAMPLES) % 2, "integrated_gradients", NodePermutations(), again)


CASES: dict[str, Callable[[], Case]] = {
    one.__name__: one
    for one in (module, tensor_function, function, forest, pipeline, xgboost, lightgbm, onnx, text, vision, several, graphs)
}


def measure(case: Case, family: Family) -> str:
    """The score's value, or why it is refused."""
    model = case.model
    if family.folds and case.again is not None:
        folds = np.arange(SAMPLES) % FOLDS
        model = veracity.CrossTrained(models=[case.again(fold) for fold in range(FOLDS)], folds=torch.tensor(folds))
    given = {"targets": case.targets, "explainers": [case.explainer], "controls": False, "companions": False, **case.settings}
    if family.symmetry:
        given["symmetry"] = case.symmetry
    audit = veracity.Audit(models=model, inputs=case.inputs, scores={"asked": family.score}, **given)
    table = audit.run(tempfile.mkdtemp(), progress=False).table()
    asked = table[table["score"] == "asked"]
    if not len(asked):
        return "refused: nothing was measured"
    value = asked["value"].iloc[0]
    return f"{value:.2f}" if np.isfinite(value) else "undefined"


def orbit(case: Case) -> str:
    """The equivariance gap of the model along a small orbit."""
    task = veracity.orbits.Classification()
    grid = veracity.orbits.GroupOrbit(space=case.symmetry, most=8, draws=4)
    evaluation = veracity.OrbitEvaluation(models={"model": case.model}, inputs=case.inputs, targets=case.targets, orbit=grid, task=task)
    return f"{evaluation.run(tempfile.mkdtemp(), progress=False).gap()['value'].iloc[0]:.2f}"


def cell(make: Callable[[], Case], family: str) -> str:
    """A value, or a sentence."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return orbit(make()) if family == ORBITS else measure(make(), FAMILIES[family])
    except veracity.VeracityError as error:
        return f"refused: {error}"
    except Exception as error:  # a gap, which the table must show
        return f"refused: CRASH {type(error).__name__}: {error}"


def same_function() -> float:
    """The largest difference between the scores of one function as Module, callable and ONNX file."""
    net, found = network(4, 8, 3), {}
    first, _, second = net
    weights = [one.detach().numpy() for one in (first.weight, first.bias, second.weight, second.bias)]

    def call(rows: Any) -> Any:
        return np.tanh(rows @ weights[0].T + weights[1]) @ weights[2].T + weights[3]

    asked = {name: FAMILIES[name].score for name in ("masks", "curves", "content", "sensitivity", "relative stability", "input noise")}
    x, y = tables()
    for name, model in {"module": net, "callable": call, "file": exported(net)}.items():
        audit = veracity.Audit(
            models=model, inputs=x, targets=y, explainers=["feature_ablation", "kernel_shap"], scores=asked, controls=False
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = audit.run(tempfile.mkdtemp(), progress=False)
        found[name] = np.concatenate([result.samples(one)["value"].to_numpy() for one in asked])
    return max(float(np.nanmax(np.abs(found["module"] - found[name]))) for name in ("callable", "file"))


def shap_values() -> dict[str, float]:
    """The largest difference between shap's own values and the maps of an audit, by explainer."""
    import shap

    x, y = iris()
    model, rows = RandomForestClassifier(5, random_state=0).fit(x, y), x[:SAMPLES]
    classes = model.predict_proba(rows).argmax(1)
    linear = LogisticRegression().fit(x, y)
    makers = {
        "TreeExplainer": (model, shap.TreeExplainer(model), "predict_proba"),
        "KernelExplainer": (model, shap.KernelExplainer(model.predict_proba, x[:10]), "predict_proba"),
        "PermutationExplainer": (model, shap.PermutationExplainer(model.predict_proba, x[:10], seed=0), "predict_proba"),
        "LinearExplainer": (linear, shap.LinearExplainer(linear, x[:10]), "decision_function"),
    }
    found = {}
    for name, (one, explainer, method) in makers.items():
        classes = getattr(one, method)(rows).argmax(1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            values = np.asarray(explainer.shap_values(rows, silent=True) if "Kernel" in name else explainer(rows).values)
            audited = one if method == "predict_proba" else one.decision_function
            audit = veracity.Audit(models=audited, inputs=rows, explainers={name: explainer}, scores=["sparseness"], controls=False)
            result = audit.run(tempfile.mkdtemp(), progress=False)
        ours = result.explanations(name)
        found[name] = float(np.abs(np.asarray(ours) - values[np.arange(SAMPLES), :, classes]).max())
    return found


def main(names: Iterable[str] = ()) -> None:
    """Fill the table row by row, then list the reasons."""
    torch.set_num_threads(1)
    reasons: list[str] = []
    columns = [*FAMILIES, ORBITS]
    print("| model | " + " | ".join(columns) + " |\n|---|" + "---|" * len(columns), flush=True)
    for name in names or CASES:
        start, row = time.perf_counter(), []
        for family in columns:
            text = cell(CASES[name], family)
            if text.startswith("refused"):
                if text not in reasons:
                    reasons.append(text)
                text = f"({reasons.index(text) + 1})"
            row.append(text)
        print(f"| {name} | " + " | ".join(row) + " |", flush=True)
        print(f"{name}: {time.perf_counter() - start:.1f} s", file=sys.stderr, flush=True)
    for number, reason in enumerate(reasons, start=1):
        print(f"{number}. {reason.removeprefix('refused: ')}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
