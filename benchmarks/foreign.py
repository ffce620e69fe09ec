"""What an audit adds to foreign explainers: python -m benchmarks.foreign [NAME ...]

Each explainer is called directly on samples, and by an audit of the same samples, in turns and with one thread. The audit measures
`sparseness`, which explains every sample once. `explaining` counts what the audit spends in the explainer, trial included; `audit`
counts everything: checks, hashes, the score and the files. The number of samples is chosen for direct calls of `LEAST` seconds.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from typing import Any
from unittest.mock import patch

import captum.attr
import numpy as np
import torch
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from torch import Tensor, nn

from benchmarks.timing import CONSOLE, empty_table, quiet
from veracity import Audit
from veracity.explain import Foreign, as_explainer
from veracity.models import as_model

LEAST, TURNS, PROBE = 6.5, 3, 4
SHORT = 5.0
"""Direct calls below these seconds are not compared."""
FEATURES, CLASSES = 12, 3


@dataclass(frozen=True, kw_only=True)
class Case:
    """A model, its explainer, the direct call on some samples, and the first samples of as many as wanted, at most `most`."""

    model: Any
    explainer: Any
    direct: Callable[[Any], Any]
    samples: Callable[[int], Any]
    most: int = 1 << 14


@cache
def table() -> Any:
    return np.random.default_rng(0).normal(size=(1 << 16, FEATURES))


@cache
def forest(trees: int = 100) -> Any:
    x = table()[:2000]
    return RandomForestClassifier(trees, max_depth=10, random_state=0).fit(x, x[:, 0] + x[:, 1] * x[:, 2] > 0)


@cache
def network() -> Any:
    torch.manual_seed(0)
    first = (nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Conv2d(16, 32, 3), nn.ReLU())
    return nn.Sequential(*first, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, CLASSES)).eval()


def rows(count: int) -> Any:
    return table()[:count]


def images(count: int) -> Tensor:
    return torch.randn(count, 3, 32, 32, generator=torch.Generator().manual_seed(0))


def of_shap(kind: str) -> Case:
    """An explainer of shap on the forest, on a logistic regression or on the network."""
    import shap

    x = table()
    if kind == "DeepExplainer":
        deep = shap.DeepExplainer(network(), images(10))
        return Case(model=network(), explainer=deep, direct=lambda x: deep.shap_values(x, check_additivity=False), samples=images)
    if kind == "TreeExplainer":
        tree = shap.TreeExplainer(forest())
        return Case(model=forest(), explainer=tree, direct=partial(tree.shap_values, check_additivity=False), samples=rows)
    if kind == "LinearExplainer":
        model = LogisticRegression().fit(x[:2000], x[:2000, 0] > 0)
        linear = shap.LinearExplainer(model, x[:100])
        return Case(model=model, explainer=linear, direct=linear.shap_values, samples=rows, most=1 << 12)
    made = getattr(shap, kind)(forest(10).predict_proba, x[:20])
    direct = partial(made if kind == "PermutationExplainer" else made.shap_values, silent=True)
    return Case(model=forest(10), explainer=made, direct=direct, samples=rows)


def of_captum(kind: str) -> Case:
    """An object of Captum on the network, called with as many images as an audit takes at once."""
    made = getattr(captum.attr, kind)(network())
    settings: dict[str, Any] = {"IntegratedGradients": {"internal_batch_size": 512}}.get(kind, {})

    def direct(x: Tensor) -> Tensor:
        return torch.cat([made.attribute(part, target=network()(part).argmax(1), **settings) for part in x.split(64)])

    explainer = {"name": f"captum.attr:{kind}", **settings} if settings else made
    return Case(model=network(), explainer=explainer, direct=direct, samples=images)


def of_pyg() -> Case:
    """PyG's GNNExplainer, which optimises a mask for every graph."""
    from torch_geometric.data import Data
    from torch_geometric.explain import Explainer, GNNExplainer
    from torch_geometric.nn import GCNConv, global_mean_pool

    class Graphs(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.head = GCNConv(4, 16), nn.Linear(16, CLASSES)

        def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
            scores: Tensor = self.head(global_mean_pool(self.conv(x, edge_index).relu(), batch))
            return scores

    torch.manual_seed(0)
    model = Graphs().eval()
    config = {"mode": "multiclass_classification", "task_level": "graph", "return_type": "raw"}
    made = Explainer(model, GNNExplainer(epochs=50), "phenomenon", config, node_mask_type="attributes", edge_mask_type="object")

    def graphs(count: int) -> list[Data]:
        random = torch.Generator().manual_seed(0)
        return [Data(x=torch.randn(12, 4, generator=random), edge_index=torch.randint(12, (2, 30), generator=random)) for _ in range(count)]

    def direct(given: list[Data]) -> None:
        for one in given:
            batch = torch.zeros(12, dtype=torch.long)
            made(one.x, one.edge_index, target=model(one.x, one.edge_index, batch).argmax(1), batch=batch)

    return Case(model=model, explainer=made, direct=direct, samples=graphs)


def lime(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    """LIME on tables by hand, as a function for the audit."""
    found, random = torch.zeros_like(inputs), np.random.default_rng(0)
    for row, (x, target) in enumerate(zip(inputs, targets, strict=True)):
        near = x + torch.as_tensor(random.normal(size=(500, FEATURES))).to(x)
        with torch.no_grad():
            scores = model(near)[:, int(target)].double().numpy()
        weights = np.exp(-(near - x).square().sum(1).numpy() / FEATURES)
        found[row] = torch.as_tensor(Ridge().fit(near.numpy(), scores, weights).coef_).to(x)
    return found


def of_function() -> Case:
    """A function (model, inputs, targets)."""
    model = as_model("model", forest())

    def direct(x: Any) -> Tensor:
        given = torch.as_tensor(x)
        return lime(model, given, model(given).argmax(1))

    return Case(model=model, explainer=lime, direct=direct, samples=rows)


CASES: dict[str, Callable[[], Case]] = {
    **{f"shap.{kind}": partial(of_shap, kind) for kind in ("TreeExplainer", "KernelExplainer", "PermutationExplainer", "DeepExplainer")},
    **{f"captum.{kind}": partial(of_captum, kind) for kind in ("IntegratedGradients", "DeepLift")},
    "PyG GNNExplainer": of_pyg,
    "LIME, a function": of_function,
    "shap.LinearExplainer": partial(of_shap, "LinearExplainer"),
}


def clocks(work: Callable[[], Any]) -> tuple[float, float]:
    """Process and wall seconds of one call."""
    start = time.process_time(), time.perf_counter()
    work()
    return time.process_time() - start[0], time.perf_counter() - start[1]


@contextmanager
def explaining(spent: list[float]) -> Iterator[None]:
    """Add up the process seconds of foreign explainers."""
    explain = Foreign.explain

    def timed(self: Foreign, *given: Any) -> Tensor:
        start = time.process_time()
        try:
            return explain(self, *given)
        finally:
            spent[0] += time.process_time() - start

    with patch.object(Foreign, "explain", timed):
        yield


def measure(name: str) -> tuple[str, ...]:
    """One row of the table: the best of some turns."""
    case = CASES[name]()
    case.direct(case.samples(PROBE))
    each = clocks(partial(case.direct, case.samples(8 * PROBE)))[0] / (8 * PROBE)
    x = case.samples(min(case.most, max(8 * PROBE, int(LEAST / max(each, 1e-9)) + 1)))
    module = case.model if isinstance(case.model, nn.Module) else as_model("model", case.model)
    alone, audited, inside = [], [], []
    for _ in range(TURNS):
        alone.append(clocks(partial(case.direct, x)))
        explainer = as_explainer(case.explainer)
        audit = Audit(models=module, inputs=x, explainers=[explainer], scores=["sparseness"], controls=False, companions=False)
        spent = [0.0]
        with quiet(), tempfile.TemporaryDirectory() as folder, explaining(spent):
            audited.append(clocks(partial(audit.run, folder, progress=False)))
        inside.append(spent[0])
    direct, whole, own = min(one[0] for one in alone), min(one[0] for one in audited), min(inside)
    wall = min(one[1] for one in audited) / min(one[1] for one in alone)
    ratios = [f"{ratio:.2f}" if direct >= SHORT else "-" for ratio in (own / direct, whole / direct, wall)]
    return (name, str(len(x)), f"{direct:.3g}", f"{own:.2f}", f"{whole:.2f}", *ratios)


def main() -> None:
    """Print each row when it is known, and the table."""
    torch.set_num_threads(1)
    columns = (
        "explainer",
        "samples",
        "direct s",
        "explaining s",
        "audit s",
        "explaining / direct",
        "audit / direct",
        "audit / direct, wall",
    )
    shown = empty_table("Foreign explainers inside an audit, process seconds", *columns)
    for name in sys.argv[1:] or CASES:
        row = measure(name)
        print(" | ".join(row), flush=True)
        shown.add_row(*row)
    CONSOLE.print(shown)


if __name__ == "__main__":
    main()
