"""Networks over tables, for the faithfulness paper (Table 2). All give logits; OpenXAI's own end in a softmax, which is left out.

Names are a table and a kind: "mlp3" and "mlp2" have three and two dense layers with ReLU, "lr" is a logistic regression.

On the test rows they scored, beside the paper's models of the same kind:

| network       | size   | weights             | scored | paper |
|---------------|--------|---------------------|--------|-------|
| adult-mlp3    | 11,702 | the paper's authors | .8458  | .846  |
| adult-mlp2    | 1,602  | OpenXAI             | .8310  |       |
| adult-lr      | 28     | OpenXAI             | .8364  | .833  |
| compas-mlp3   | 11,102 | shipped             | .8429  | .850  |
| compas-mlp2   | 1,002  | OpenXAI             | .8462  |       |
| compas-lr     | 16     | OpenXAI             | .8518  | .853  |
| german-mlp2   | 6,302  | OpenXAI             | .6750  |       |
| german-lr     | 122    | OpenXAI             | .6650  |       |
| heloc-mlp2    | 2,602  | OpenXAI             | .7301  |       |
| heloc-lr      | 48     | OpenXAI             | .7316  |       |
| avila-sigmoid | 3,462  | shipped             | .8076  | .808  |
| avila-relu    | 3,462  | shipped             | .8081  | .808  |

Weights that are not shipped are read from the data folder. Always saying "good credit" would score .7150 on German: its two
networks have learnt little.

The paper's Avila network has 150 hidden units; in its authors' public code they are sigmoid, so that Guided Backprop is the
gradient there. "avila-relu" is the same with ReLU. Both were trained for no longer than it takes to come near the published
accuracy on the test rows, so that they stand for that network; 300 epochs at a rate of .02 gave .95 and .92.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from itertools import pairwise

from torch import nn

from veracity.core.errors import InputError, unknown
from veracity_papers.zoo.storage import load_public, load_shipped

OPENXAI = "github.com/AI4LIFE-GROUP/OpenXAI (openxai/ML_Models/Saved_Models)"
GEF = "github.com/annahedstroem/GEF (assets/models)"


@dataclass(frozen=True)
class Known:
    """A network's sizes, the file of the data folder that holds its weights (none: the package ships them), and where that is from."""

    sizes: tuple[int, ...]
    file: str = ""
    origin: str = OPENXAI
    activation: type[nn.Module] = nn.ReLU


KNOWN = {
    "adult-mlp3": Known((13, 100, 100, 2), "gef/ann_adult.pt", GEF),
    "adult-mlp2": Known((13, 100, 2), "openxai/ANN_adult_lr_0.002_acc_0.83.pt"),
    "adult-lr": Known((13, 2), "openxai/LR_adult_lr_0.002_acc_0.84.pt"),
    "compas-mlp3": Known((7, 100, 100, 2)),
    "compas-mlp2": Known((7, 100, 2), "openxai/ANN_compas_lr_0.002_acc_0.85.pt"),
    "compas-lr": Known((7, 2), "openxai/LR_compas_lr_0.002_acc_0.85.pt"),
    "german-mlp2": Known((60, 100, 2), "openxai/ANN_german_lr_0.002_acc_0.71.pt"),
    "german-lr": Known((60, 2), "openxai/LR_german_lr_0.002_acc_0.72.pt"),
    "heloc-mlp2": Known((23, 100, 2), "openxai/ANN_heloc_lr_0.002_acc_0.74.pt"),
    "heloc-lr": Known((23, 2), "openxai/LR_heloc_lr_0.002_acc_0.72.pt"),
    "avila-sigmoid": Known((10, 150, 12), activation=nn.Sigmoid),
    "avila-relu": Known((10, 150, 12)),
}
NAMES = tuple(KNOWN)
SHIPPED = tuple(name for name, known in KNOWN.items() if not known.file)


def mlp(*sizes: int, activation: type[nn.Module] = nn.ReLU) -> nn.Sequential:
    """Dense layers with an activation after all but the last: from (N, sizes[0]) to logits (N, sizes[-1]).

    Layers are linear1, activation1, linear2, ...; with two sizes it is a logistic regression.

    >>> sum(parameter.numel() for parameter in mlp(13, 100, 100, 2).parameters())
    11702
    """
    if len(sizes) < 2:
        raise InputError(f"A network needs the number of features and of classes, not {len(sizes)} size(s): mlp(13, 100, 2).")
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    for number, (before, after) in enumerate(pairwise(sizes), start=1):
        layers[f"linear{number}"] = nn.Linear(before, after)
        if number < len(sizes) - 1:
            layers[f"activation{number}"] = activation()
    return nn.Sequential(layers)


def build(name: str) -> nn.Sequential:
    """One of the NAMES, untrained."""
    if name not in KNOWN:
        raise unknown("network", name, NAMES)
    return mlp(*KNOWN[name].sizes, activation=KNOWN[name].activation)


def pretrained(name: str) -> nn.Sequential:
    """One of the NAMES with its weights, those that are SHIPPED as `python -m veracity_papers.zoo.train tabular` made them."""
    net = build(name)
    return load_shipped(net, name) if name in SHIPPED else load_public(net, KNOWN[name].file, KNOWN[name].origin)
