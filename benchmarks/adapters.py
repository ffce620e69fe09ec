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
from dataclasses import dataclass, field
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
from veracity.core.models import weight_type
from veracity.core.spaces import InputSpace
from veracity.engine.crosstrain.folds import outputs_of
from veracity.explain import KernelShap, Shap
from veracity.inputs import SeveralInputs, TextInputs, as_inputs
from veracity.models import as_model
from veracity.perturb import Flips, NodePermutations, Permutations, TokenPermutations
from veracity.walk import Genetic, GradientSearch, MonteCarlo, SubsetSimulation

SAMPLES = 12
FOLDS = 3
SHUFFLED = Permutations(axis=-1)


@dataclass(frozen=True)
class Case:
    """A model with its data, an explainer and a symmetry that fit it, and `again`: how to train it anew without some samples."""

    model: Any
    inputs: Any
    targets: Any
    explainer: Any = "feature_ablation"
    symmetry: InputSpace = SHUFFLED
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
    "symmetry": Family(of.Equivariance(walk=FEW), symmetry=True),
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
REASONS = {
    "no layers": ("has no layers with weights",),
    "no gradient": ("needs gradients",),
    "no weights": ("has no weights", "has no parameters"),
    "no fit": ("is no estimator that can be fitted again",),
    "no order": ("would move the gates",),
}
"""Reasons for a refusal that are facts about a model, by words of the sentence. Anything else is a gap."""


def seeded(build: Callable[[], Any], fold: int = 0) -> Any:
    """A model in evaluation mode with fixed weights that are large enough to tell inputs apart; those of other folds differ a little."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        model = build()
        for one in model.parameters():
            nn.init.normal_(one, std=0.3)
        torch.default_generator.manual_seed(fold)
        for one in model.parameters() if fold else ():
            one.data += 0.2 * torch.randn_like(one)
    return model.eval()


def network(*sizes: int, fold: int = 0) -> Any:
    """Linear layers with tanh between them."""
    return seeded(lambda: nn.Sequential(*[one for pair in pairwise(sizes) for one in (nn.Linear(*pair), nn.Tanh())][:-1]), fold)


def untrained(again: Callable[[int], Any], inputs: Any, explainer: str = "integrated_gradients", symmetry: InputSpace = SHUFFLED) -> Case:
    """A model whose labels are what it predicts itself, since nobody trained it."""
    data = as_inputs(inputs)
    labels = outputs_of(as_model("model", again(0)), data, torch.arange(data.size())).argmax(1)
    return Case(again(0), inputs, labels, explainer, symmetry, again)


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
    """Four standardised columns and three classes, shuffled; a fifth of the classes is random, so that folds disagree."""
    x, y = load_iris(return_X_y=True)
    draws = np.random.default_rng(0)
    order = draws.permutation(len(y))
    return StandardScaler().fit_transform(x)[order], np.where(draws.random(len(y)) < 0.2, draws.integers(0, 3, len(y)), y[order])


def rows() -> Any:
    """The audited rows of iris, in float32."""
    return iris()[0][:SAMPLES].astype(np.float32)


def fitted(estimator: Any, frame: bool = False) -> Case:
    """An estimator fitted to iris, and fitted again without one fold of the audited rows."""
    values, y = iris()
    x = pd.DataFrame(values, columns=["sepal length", "sepal width", "petal length", "petal width"]) if frame else values

    def again(fold: int) -> Any:
        keep = np.r_[np.flatnonzero(np.arange(SAMPLES) % FOLDS != fold), np.arange(SAMPLES, len(y))]
        return clone(estimator).fit(x.iloc[keep] if frame else x[keep], y[keep])

    return Case(estimator.fit(x, y), x[:SAMPLES], y[:SAMPLES], again=again, settings={"training": (x, y)})


def module() -> Case:
    return untrained(lambda fold: network(4, 8, 3, fold=fold), rows())


def tensor_function() -> Case:
    def again(fold: int) -> Any:
        weights = network(4, 3, fold=fold)[0].weight.detach()
        return lambda rows: torch.tanh(rows @ weights.T.to(rows))

    return untrained(again, rows())


def function() -> Case:
    def again(fold: int) -> Any:
        weights = network(4, 3, fold=fold)[0].weight.detach().numpy()
        return lambda rows: np.tanh(np.asarray(rows) @ weights.T)

    return untrained(again, rows(), "feature_ablation")


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


@cache
def scratch() -> tempfile.TemporaryDirectory[str]:
    """A folder that is deleted at the end."""
    return tempfile.TemporaryDirectory()


def folder() -> str:
    """A new folder."""
    return tempfile.mkdtemp(dir=scratch().name)


def exported(net: nn.Module) -> Path:
    """The ONNX file of a network on tables of four columns, in the precision of its weights."""
    path = Path(folder()) / "network.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            net, (torch.zeros(1, 4, dtype=weight_type(net)),), path, input_names=["x"], dynamic_axes={"x": {0: "rows"}}, dynamo=False
        )
    return path


def onnx() -> Case:
    return untrained(lambda fold: exported(network(4, 8, 3, fold=fold)), rows(), "feature_ablation")


def text() -> Case:
    from tokenizers import BertWordPieceTokenizer
    from transformers import DistilBertConfig, DistilBertForSequenceClassification, PreTrainedTokenizerFast

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "fine", "dull", "film", "with", "no", "heart", "not", "very"]
    pieces = BertWordPieceTokenizer({word: number for number, word in enumerate(words)})._tokenizer
    special = {f"{kind}_token": f"[{kind.upper()}]" for kind in ("pad", "unk", "cls", "sep", "mask")}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=pieces, **special)
    config = DistilBertConfig(vocab_size=len(words), dim=8, hidden_dim=16, n_layers=2, n_heads=2, max_position_embeddings=12)
    some = ["a fine film", "a dull film with no heart", "not a fine film", "a very dull film", "a film with heart", "not very dull"]
    texts = [*some, *(f"not {text}" for text in some)]
    inputs = TextInputs(texts, tokenizer)
    return untrained(lambda fold: seeded(lambda: DistilBertForSequenceClassification(config), fold), inputs, symmetry=TokenPermutations())


def vision() -> Case:
    from transformers import ViTConfig, ViTForImageClassification

    sizes = {"image_size": 8, "patch_size": 4, "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}

    config = ViTConfig(**sizes, num_labels=3)
    x = torch.rand(SAMPLES, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    return untrained(lambda fold: seeded(lambda: ViTForImageClassification(config), fold), x, symmetry=Flips())


def several() -> Case:
    draws = torch.Generator().manual_seed(0)
    parts = {"image": torch.rand(SAMPLES, 1, 6, 6, generator=draws), "table": torch.rand(SAMPLES, 2, generator=draws)}
    return untrained(lambda fold: seeded(TwoInputs, fold), SeveralInputs(parts, explain="image"), symmetry=Flips())


def graphs() -> Case:
    from torch_geometric.data import Data
    from torch_geometric.nn import GCNConv, global_add_pool

    class Graphs(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.hidden, self.head = GCNConv(3, 8), nn.Linear(8, 8), nn.Linear(8, 3)

        def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
            """Scores (N, 3)."""
            scores: Tensor = self.head(self.hidden(global_add_pool(self.conv(x, edge_index).tanh(), batch)).tanh())
            return scores

    draws = torch.Generator().manual_seed(0)
    rings = [torch.stack([torch.arange(size), (torch.arange(size) + 1) % size]) for size in (3, 4, 5, 6) * 3]
    data = [Data(x=torch.randn(ring.shape[1], 3, generator=draws), edge_index=torch.cat([ring, ring.flip(0)], 1)) for ring in rings]
    return untrained(lambda fold: seeded(Graphs, fold), data, symmetry=NodePermutations())


CASES: dict[str, Callable[[], Case]] = {
    one.__name__: one
    for one in (module, tensor_function, function, forest, pipeline, xgboost, lightgbm, onnx, text, vision, several, graphs)
}


def measure(case: Case, family: Family) -> str:
    """The score's value, or why there is none."""
    model = case.model
    if family.folds and case.again is not None:
        models = [case.again(fold) for fold in range(FOLDS)]
        model = veracity.CrossTrained(models=models, folds=torch.arange(SAMPLES) % FOLDS)
    given = {"targets": case.targets, "explainers": [case.explainer], "controls": False, "companions": False, **case.settings}
    if family.symmetry:
        given["symmetry"] = case.symmetry
    audit = veracity.Audit(models=model, inputs=case.inputs, scores={"asked": family.score}, **given)
    (row,) = audit.run(folder(), progress=False).table().query("score == 'asked'").to_dict("records")
    return f"{row['value']:.2f}" if np.isfinite(row["value"]) else f"No value: {row['failed'] or row['state']}"


def orbit(case: Case) -> str:
    """The equivariance gap of the model along a small orbit."""
    grid = veracity.orbits.GroupOrbit(space=case.symmetry, most=8, draws=4)
    given = {"models": {"model": case.model}, "inputs": case.inputs, "targets": case.targets}
    result = veracity.OrbitEvaluation(**given, orbit=grid, task=veracity.orbits.Classification()).run(folder(), progress=False)
    return f"{result.gap()['value'].iloc[0]:.2f}"


def cell(make: Callable[[], Case], family: str) -> str:
    """A value, or a sentence."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return orbit(make()) if family == ORBITS else measure(make(), FAMILIES[family])
        except Exception as error:
            return str(error) if isinstance(error, veracity.VeracityError) else f"{type(error).__name__}: {error}"


def audited(model: Any, inputs: Any, explainers: Mapping[str, Any], scores: Mapping[str, Any], **settings: Any) -> veracity.Result:
    """The result of an audit without controls and notes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        audit = veracity.Audit(models=model, inputs=inputs, explainers=explainers, scores=scores, controls=False, **settings)
        return audit.run(folder(), progress=False)


def same_function(kind: torch.dtype) -> dict[str, float]:
    """The largest difference between the scores of one function as Module, callable and ONNX file, over all samples, by family."""
    net = network(4, 8, 3).to(kind)
    first, _, second = net
    weights = [one.detach().numpy() for one in (first.weight, first.bias, second.weight, second.bias)]

    def call(values: Any) -> Any:
        return np.tanh(np.asarray(values) @ weights[0].T + weights[1]) @ weights[2].T + weights[3]

    asked = {name: FAMILIES[name].score for name in ("masks", "curves", "content", "sensitivity", "relative stability", "input noise")}
    explainers, inputs = {"ablation": "feature_ablation", "shap": "kernel_shap"}, torch.tensor(rows()).to(kind)
    module, *others = (audited(model, inputs, explainers, asked) for model in (net, call, exported(net)))

    def largest(name: str) -> float:
        gaps = [np.abs(module.samples(name)["value"].to_numpy() - other.samples(name)["value"].to_numpy()) for other in others]
        return float(np.nan_to_num(gaps, nan=np.inf).max())

    return {name: largest(name) for name in asked}


def shap_values() -> dict[str, float]:
    """The largest difference between what shap gives for the predicted classes and the maps of an audit, by explainer."""
    import shap

    x, y = iris()
    forest, linear = RandomForestClassifier(5, random_state=0).fit(x, y), LogisticRegression().fit(x, y)
    nothing, few = np.zeros((1, 4)), x[SAMPLES : SAMPLES + 10]
    exact = shap.KernelExplainer(forest.predict_proba, nothing, silent=True)
    cases = {
        "TreeExplainer": (forest, shap.TreeExplainer(forest), None),
        "KernelExplainer": (forest, shap.KernelExplainer(forest.predict_proba, few, silent=True), None),
        "PermutationExplainer": (forest, shap.PermutationExplainer(forest.predict_proba, few, seed=0), None),
        "LinearExplainer": (linear.decision_function, shap.LinearExplainer(linear, few), None),
        "Shap(kind='tree') and TreeExplainer": (forest, shap.TreeExplainer(forest), Shap(kind="tree")),
        "kernel_shap and KernelExplainer": (forest, exact, KernelShap(baseline=0.0)),
    }
    found = {}
    for name, (model, theirs, ours) in cases.items():
        inputs = x[:SAMPLES]
        classes = (model(inputs) if callable(model) else model.predict_proba(inputs)).argmax(1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            values = np.asarray(theirs.shap_values(inputs))[np.arange(SAMPLES), :, classes]
        maps = audited(model, inputs, {"ours": ours or theirs}, {"any": "sparseness"}).explanations("model", "ours")
        found[name] = float(np.abs(maps.numpy() - values).max())
    shuffled = shap.PermutationExplainer(forest.predict_proba, few, seed=0)
    once, twice = (np.asarray(shuffled.shap_values(x[:SAMPLES])) for _ in range(2))
    return {**found, "PermutationExplainer called twice by hand": float(np.abs(once - twice).max())}


def main(names: Iterable[str] = ()) -> int:
    """Fill the table row by row, then list the reasons; 1 if there is a gap."""
    torch.set_num_threads(1)
    started, sentences, columns = time.perf_counter(), dict[str, str](), [*FAMILIES, ORBITS]
    print("| model | " + " | ".join(columns) + " |\n|---|" + "---|" * len(columns), flush=True)
    for name in names or CASES:
        row = []
        for family in columns:
            text = cell(CASES[name], family)
            if not text.replace("-", "").replace(".", "").isdigit():
                reason = next((mark for mark, words in REASONS.items() if any(part in text for part in words)), f"GAP {len(sentences)}")
                sentences.setdefault(reason, text)
                text = reason
            row.append(text)
        print(f"| {name} | " + " | ".join(row) + " |", flush=True)
    for reason, sentence in sentences.items():
        print(f"{reason}: {sentence}", flush=True)
    for kind in (torch.float64, torch.float32):
        gaps = ", ".join(f"{name} {gap:.1e}" for name, gap in same_function(kind).items())
        print(f"largest difference between the scores of Module, callable and ONNX file, {kind}: {gaps}", flush=True)
    for name, difference in shap_values().items():
        print(f"largest difference from shap's own values, {name}: {difference:.1e}", flush=True)
    print(f"{time.perf_counter() - started:.0f} s", flush=True)
    return int(any(reason.startswith("GAP") for reason in sentences))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
