"""Small models with inputs that suit them, which audits and audit files name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from veracity import CrossTrained, GraphInputs, TokenInputs


@dataclass(frozen=True)
class World:
    """A model, inputs for it, and what may be asked of them: `explainers` None stands for any that explains maps."""

    model: Callable[[], Any]
    inputs: Callable[[int], Any]
    classes: int
    symmetries: tuple[Any, ...]
    explainers: tuple[Any, ...] | None = None


def seeded(make: Callable[[], nn.Module], seed: int = 0) -> nn.Module:
    """A network with the same weights whenever it is made, and the random state as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return make().eval()


def rand(*shape: int) -> Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(len(shape) + shape[0]))


def mlp(outputs: int = 3, seed: int = 0) -> nn.Module:
    return seeded(lambda: nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, outputs)), seed)


def normed() -> nn.Module:
    return seeded(lambda: nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 3)))


def regression() -> nn.Module:
    return mlp(1)


def yes_or_no() -> nn.Module:
    return seeded(lambda: nn.Sequential(nn.Linear(6, 1), nn.Sigmoid()))


def probabilities() -> nn.Module:
    return seeded(lambda: nn.Sequential(nn.Linear(6, 3), nn.Softmax(dim=1)))


def cnn() -> nn.Module:
    return seeded(
        lambda: nn.Sequential(
            nn.Conv2d(1, 3, 3, padding=1), nn.BatchNorm2d(3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 3)
        )
    )


def colour() -> nn.Module:
    return seeded(lambda: nn.Sequential(nn.Conv2d(3, 2, 2), nn.Tanh(), nn.Flatten(), nn.Linear(2 * 4 * 6, 2)))


def series() -> nn.Module:
    return seeded(
        lambda: nn.Sequential(
            nn.Conv1d(1, 3, 3, padding=1, padding_mode="circular"), nn.ReLU(), nn.AdaptiveMaxPool1d(1), nn.Flatten(), nn.Linear(3, 3)
        )
    )


class Nodes(nn.Module):
    """A graph network in plain torch: the features of each node and of its neighbours, summed over a graph."""

    def __init__(self) -> None:
        super().__init__()
        self.own, self.other, self.head = nn.Linear(2, 4), nn.Linear(2, 4), nn.Linear(4, 3)

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        near = torch.zeros_like(x).index_add(0, edge_index[1], x[edge_index[0]])
        hidden = torch.relu(self.own(x) + self.other(near))
        graphs = int(batch.max()) + 1 if len(batch) else 0
        out: Tensor = self.head(hidden.new_zeros(graphs, 4).index_add(0, batch, hidden))
        return out


def graph_net() -> nn.Module:
    return seeded(Nodes)


def graphs(count: int) -> GraphInputs:
    mask = torch.ones(count, 4, dtype=torch.bool)
    mask[:, 3] = torch.arange(count) % 2 == 0
    return GraphInputs(rand(count, 4, 2) * mask[..., None], mask, torch.tensor([[0, 1], [1, 2], [2, 0]]).expand(count, 3, 2).clone())


def token_net() -> nn.Module:
    return seeded(lambda: nn.Sequential(nn.Flatten(), nn.Linear(5 * 4, 3)))


def tokens(count: int) -> TokenInputs:
    return TokenInputs(torch.randint(0, 4, (count, 5), generator=torch.Generator().manual_seed(count)), 4)


def crossed() -> CrossTrained:
    return CrossTrained(models=[mlp(seed=0), mlp(seed=1)], folds=[0, 1] * 3)


WORLDS: dict[str, World] = {
    "mlp": World(
        mlp, lambda n: rand(n, 6), 3, ({"name": "cyclic_shift"}, "sign_flip", "permutations", {"name": "permutations", "axis": -1})
    ),
    "normed": World(normed, lambda n: rand(n, 6), 3, ({"name": "mirror"}, "cyclic_shift")),
    "regression": World(regression, lambda n: rand(n, 6), 1, ("cyclic_shift", "sign_flip")),
    "yes_or_no": World(yes_or_no, lambda n: rand(n, 6), 2, ("cyclic_shift",)),
    "probabilities": World(probabilities, lambda n: rand(n, 6), 3, ("cyclic_shift",)),
    "cnn": World(
        cnn, lambda n: rand(n, 1, 6, 6), 3, ("d4", "c4", "flips", "so2", "scaling", "mirror", {"name": "window_shift", "margin": 1})
    ),
    "colour": World(colour, lambda n: rand(n, 3, 5, 7), 2, ("flips", "mirror", {"name": "cyclic_shift", "axes": [-2, -1]})),
    "series": World(
        series, lambda n: rand(n, 1, 8), 3, ("cyclic_shift", "mirror", {"name": "product", "factors": ["cyclic_shift", "sign_flip"]})
    ),
    "graphs": World(
        graph_net,
        graphs,
        3,
        ("node_permutations",),
        ("gradient", "saliency", "input_x_gradient", "feature_ablation", {"name": "smooth_grad", "draws": 2}),
    ),
    "tokens": World(token_net, tokens, 3, ({"name": "permutations", "axis": -2}, "cyclic_shift")),
    "crossed": World(crossed, lambda n: rand(6, 6), 3, ("cyclic_shift",)),
}
COMMON = (
    "mlp",
    "mlp",
    "normed",
    "cnn",
    "series",
    "series",
    "regression",
    "yes_or_no",
    "probabilities",
    "colour",
    "graphs",
    "tokens",
    "crossed",
)


def labels(count: int, classes: int) -> Tensor:
    return torch.arange(count) % max(classes, 2)


def told(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    """An explainer of one's own."""
    return inputs * 2.0


def broken(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    """An explainer that fails."""
    raise ValueError("broken on purpose")


def file_data() -> tuple[Tensor, Tensor]:
    return rand(5, 6), labels(5, 3)


def file_images() -> tuple[Tensor, Tensor]:
    return rand(4, 1, 6, 6), labels(4, 3)


def file_nothing() -> None:
    return None


def file_failing() -> Tensor:
    raise RuntimeError("no data today")


def fit(inputs: Tensor, targets: Tensor, seed: int) -> nn.Module:
    return mlp(seed=seed)
