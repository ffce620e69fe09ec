"""What an audit adds to foreign explainers: python -m benchmarks.foreign

Each explainer is called directly on the samples, and by audits: `sparseness` explains the samples once, `max_sensitivity` explains
perturbed samples as well. Audits are compared with direct calls on as many rows as they explain.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import captum.attr
import numpy as np
import torch
from sklearn.ensemble import RandomForestClassifier
from torch import nn

from benchmarks.timing import CONSOLE, empty_table, quiet
from veracity import Audit
from veracity.explain import as_explainer
from veracity.models import as_model
from veracity.scores import MaxSensitivity
from veracity.walk import MonteCarlo

DRAWS = 3


def cases() -> dict[str, tuple[Any, Any, Any, Callable[[Any], Any]]]:
    """Model, explainer, samples and the direct call by name."""
    import shap

    rng = np.random.default_rng(0)
    table = rng.normal(size=(4096, 12))
    labels = (table[:, 0] + table[:, 1] * table[:, 2] > 0).astype(int)
    forest = RandomForestClassifier(100, max_depth=10, random_state=0).fit(table[:2000], labels[:2000])
    tree, kernel = shap.TreeExplainer(forest), shap.KernelExplainer(forest.predict_proba, table[:20])
    torch.manual_seed(0)
    conv = nn.Sequential(
        nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Conv2d(16, 32, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 5)
    ).eval()
    images = torch.randn(192, 3, 32, 32)
    ig, deep = captum.attr.IntegratedGradients(conv), shap.DeepExplainer(conv, images[:10])

    def integrated(x: Any) -> Any:
        return torch.cat([ig.attribute(part, target=conv(part).argmax(1), internal_batch_size=512) for part in x.split(64)])

    own = {"internal_batch_size": 512}
    return {
        "shap.TreeExplainer": (forest, tree, table[:1024], tree.shap_values),
        "shap.KernelExplainer": (forest, kernel, table[:64], lambda x: kernel.shap_values(x, silent=True)),
        "shap.DeepExplainer": (conv, deep, images[:64], lambda x: deep.shap_values(x, check_additivity=False)),
        "captum IntegratedGradients": (conv, {"name": "captum.attr:IntegratedGradients", **own}, images, integrated),
    }


def seconds(work: Callable[[], Any]) -> float:
    """Process seconds of one call."""
    start = time.process_time()
    work()
    return time.process_time() - start


def main() -> None:
    """Print the table."""
    torch.set_num_threads(1)
    shown = empty_table("Foreign explainers inside an audit", "explainer", "score", "rows", "direct s", "audit s", "ratio", left=2)
    for name, (model, explainer, x, direct) in cases().items():
        module = model if isinstance(model, nn.Module) else as_model("model", model)
        direct(x[:2])
        for score, label, times in (
            ("sparseness", "sparseness", 1),
            (MaxSensitivity(walk=MonteCarlo(draws=DRAWS)), "max_sensitivity", 1 + DRAWS),
        ):
            rows = torch.cat([torch.as_tensor(x)] * times)
            alone = seconds(partial(direct, rows if isinstance(model, nn.Module) else rows.numpy()))
            audit = Audit(models=module, inputs=x, explainers=[as_explainer(explainer)], scores=[score], controls=False, companions=False)
            with quiet(), tempfile.TemporaryDirectory() as folder:
                inside = seconds(partial(audit.run, folder, progress=False))
            shown.add_row(name, label, str(len(rows)), f"{alone:.2f}", f"{inside:.2f}", f"{inside / alone:.2f}")
            CONSOLE.print(f"{name} {label}: {len(rows)} rows, direct {alone:.2f} s, audit {inside:.2f} s, ratio {inside / alone:.2f}")
    CONSOLE.print(shown)


if __name__ == "__main__":
    main()
