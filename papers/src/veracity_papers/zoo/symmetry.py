"""The symmetry paper's networks for permutations and shifts (its appendix F), with trained weights. Their Inv layer is "linear1".

| network   | sees                        | exactly invariant to         | Equiv layer  | test accuracy                        |
|-----------|-----------------------------|------------------------------|--------------|--------------------------------------|
| BAG       | reviews of IMDb             | the order of tokens          |              | .8124 (the paper, 9x the data: .86)  |
| DEEP_SETS | clouds of ModelNet, Table 8 | the order of points          | equivariant2 | .9966                                |
| GNN       | molecules, Table 7          | the order of atoms           |              | .8291                                |
| ECG       | beats, Tables 5 and 6       | cyclic shifts ("all-cnn")    | conv3        | .9285, .9541, .9651 (.86 are normal) |
| FASHION   | clothing, Tables 9 and 10   | shifts in a window (as ECG)  | conv3        |                                      |

Deep Sets (Zaheer et al. 2017) takes maxima with `amax`, so that tied points share the gradient; with `torch.max` it would go to one
of them, and explanations would depend on the points' order. The shipped weights are for 64 features where the paper has 256.

The graph network gives logits where the paper gives their log-softmax: the same probabilities and the same loss. Graphs have no
equivariant layer of fixed size, since molecules differ in size (Table 12).

Beats have 180 steps here (see `veracity_papers.data.ecg`), so that the flattening networks see 128 * 22 features, not 128 * 23. The
printed Table 10 flattens to 294,912 features; its own three poolings of a 48x48 image leave 128*6*6 = 4,608, which is what is built
here, with 10 outputs.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from itertools import pairwise

from torch import Size, Tensor, nn

from veracity.core.errors import missing_extra
from veracity.demo import GlobalMean, all_cnn, flatten_cnn
from veracity_papers.data.ecg import LENGTH
from veracity_papers.data.imdb import VOCABULARY
from veracity_papers.data.modelnet import CLASSES
from veracity_papers.zoo.storage import Shipped

PADDING = 10
"""The margin around images of clothing, which the networks see as 48x48 pixels."""


class Bag(nn.Module):
    """How often each word occurs."""

    def forward(self, x: Tensor) -> Tensor:
        """From one-hot tokens (N, T, V) to counts (N, V)."""
        return x.sum(dim=1)


def bag_of_words(vocabulary: int = VOCABULARY, hidden: int = 16, classes: int = 2, dropout: float = 0.5) -> nn.Sequential:
    """Counts, a hidden layer with ReLU, and logits: f(x) = g(sum_t onehot(x_t)), from (N, T, V) to (N, classes)."""
    return nn.Sequential(
        OrderedDict(
            bag=Bag(),
            linear1=nn.Linear(vocabulary, hidden),
            relu=nn.ReLU(),
            dropout=nn.Dropout(dropout),
            linear2=nn.Linear(hidden, classes),
        )
    )


class SubtractMax(nn.Module):
    """Each feature less its maximum over the set: x_(s,i) - max_s' x_(s',i)."""

    def forward(self, x: Tensor) -> Tensor:
        """From (N, P, F) to (N, P, F)."""
        return x - x.amax(dim=1, keepdim=True)


class SetMax(nn.Module):
    """Each feature's maximum over the set."""

    def forward(self, x: Tensor) -> Tensor:
        """From (N, P, F) to (N, F)."""
        return x.amax(dim=1)


def deep_sets(classes: int, width: int = 256, features: int = 3, dropout: float = 0.5) -> nn.Sequential:
    """Three equivariant layers, a maximum over the set and two dense layers: from (N, P, features) to logits (N, classes)."""
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    for number, before in enumerate((features, width, width), start=1):
        layers[f"subtract{number}"] = SubtractMax()
        layers[f"equivariant{number}"], layers[f"tanh{number}"] = nn.Linear(before, width), nn.Tanh()
    layers["pool"], layers["dropout1"] = SetMax(), nn.Dropout(dropout)
    layers["linear1"], layers["tanh4"], layers["dropout2"] = nn.Linear(width, width), nn.Tanh(), nn.Dropout(dropout)
    layers["linear2"] = nn.Linear(width, classes)
    return nn.Sequential(layers)


class GraphNet(nn.Module):
    """Graph convolutions (Morris et al. 2019) with ReLU, the sum over nodes, and two dense layers: model(x, edge_index, batch)."""

    def __init__(self, features: int = 14, width: int = 32, depth: int = 5, classes: int = 2) -> None:
        super().__init__()
        if find_spec("torch_geometric") is None:
            raise missing_extra("torch_geometric", "graphs")
        from torch_geometric.nn import GraphConv, SumAggregation

        self.depth = depth
        for number, (before, after) in enumerate(pairwise((features, *[width] * depth)), start=1):
            self.add_module(f"conv{number}", GraphConv(before, after))
            self.add_module(f"relu{number}", nn.ReLU())
        self.pool = SumAggregation()
        self.linear1, self.relu, self.dropout = nn.Linear(width, width), nn.ReLU(), nn.Dropout(0.5)
        self.linear2 = nn.Linear(width, classes)

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        """Logits (graphs, classes) from node features (n, F), edges (2, e) and the graph of each node (n,)."""
        for number in range(1, self.depth + 1):
            x = self.get_submodule(f"relu{number}")(self.get_submodule(f"conv{number}")(x, edge_index))
        logits: Tensor = self.linear2(self.dropout(self.relu(self.linear1(self.pool(x, batch)))))
        return logits


def cnns(data: str, classes: int, shape: tuple[int, ...]) -> dict[str, Shipped[nn.Sequential]]:
    """An invariant network and two that flatten their last maps, one of them trained on shifted samples."""

    def invariant() -> nn.Sequential:
        return all_cnn((16, 64, 128), classes, GlobalMean(), hidden=32, axes=len(shape))

    flat = partial(flatten_cnn, (16, 64, 128), classes, Size(shape), hidden=32)
    builds: dict[str, Callable[[], nn.Sequential]] = {"all-cnn": invariant, "augmented-cnn": flat, "standard-cnn": flat}
    return {name: Shipped(f"{data}-{name}", build, equivariant="conv3") for name, build in builds.items()}


BAG = Shipped("imdb-bag", bag_of_words)
DEEP_SETS = Shipped("modelnet-deep-sets", partial(deep_sets, len(CLASSES), 64), equivariant="equivariant2")
GNN = Shipped("mutagenicity-gnn", GraphNet)
ECG = cnns("ecg", 2, (LENGTH,))
FASHION = cnns("fashion", 10, (28 + 2 * PADDING,) * 2)
