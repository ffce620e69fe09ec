from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from veracity.core.errors import InputError, SpecError
from veracity.trainers.training import accuracy
from veracity_papers.data import files
from veracity_papers.data.tabular import avila, openxai
from veracity_papers.zoo import storage
from veracity_papers.zoo.tabular import KNOWN, NAMES, SHIPPED, build, mlp, pretrained

SCORES = {
    "adult-mlp3": 0.8458,
    "adult-mlp2": 0.8310,
    "adult-lr": 0.8364,
    "compas-mlp3": 0.8429,
    "compas-mlp2": 0.8462,
    "compas-lr": 0.8518,
    "german-mlp2": 0.6750,
    "german-lr": 0.6650,
    "heloc-mlp2": 0.7301,
    "heloc-lr": 0.7316,
    "avila-sigmoid": 0.8076,
    "avila-relu": 0.8081,
}
SIZES = {"adult-mlp3": 11_702, "adult-lr": 28, "compas-mlp3": 11_102, "compas-lr": 16, "avila-sigmoid": 3_462, "avila-relu": 3_462}
needed = [f"weights/{known.file}" for known in KNOWN.values() if known.file]
REAL = all(files.locate(file) is not None for file in (*needed, "openxai_tabular/adult-train.csv", "avila/avila-ts.txt"))


def test_a_network_against_its_formula() -> None:
    net = mlp(3, 5, 4, 2, activation=nn.Sigmoid)
    x = torch.rand(6, 3, generator=torch.Generator().manual_seed(0))
    a, b, c, d, e, f = net.state_dict().values()
    slow = ((x @ a.T + b).sigmoid() @ c.T + d).sigmoid() @ e.T + f
    assert torch.allclose(net(x), slow, atol=1e-6)
    assert [name for name, _ in net.named_children()] == ["linear1", "activation1", "linear2", "activation2", "linear3"]


def test_the_networks_have_the_papers_sizes() -> None:
    assert {name: sum(p.numel() for p in build(name).parameters()) for name in SIZES} == SIZES
    assert SHIPPED == ("compas-mlp3", "avila-sigmoid", "avila-relu")
    assert all(isinstance(build(name)[1], nn.Sigmoid if name == "avila-sigmoid" else nn.ReLU) for name in NAMES if "lr" not in name)


@pytest.mark.parametrize("name", SHIPPED)
def test_the_shipped_weights_say_how_they_scored(name: str) -> None:
    net = pretrained(name)
    assert not net.training
    assert float(storage.facts(name)["test_accuracy"]) == SCORES[name]


@pytest.mark.skipif(not REAL, reason="needs OpenXAI's tables and weights, the authors' weights, and Avila")
def test_accuracies_are_those_measured_and_outputs_are_logits() -> None:
    tables = {name: avila() if name == "avila" else openxai(name) for name in ("adult", "compas", "german", "heloc", "avila")}
    for name in NAMES:
        table, net = tables[name.split("-")[0]], pretrained(name)
        assert accuracy(net, table.values, table.labels) == pytest.approx(SCORES[name], abs=2e-4), name
        output = net(table.values[:50])
        assert (output.sum(dim=1) - 1).abs().max() > 0.05, f"{name} gives probabilities"


def test_weights_of_the_data_folder_are_matched_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "weights" / KNOWN["adult-lr"].file
    path.parent.mkdir(parents=True)
    given = {"linear.weight": torch.arange(26.0).reshape(2, 13), "linear.bias": torch.tensor([1.0, -1.0])}
    torch.save(given, path)
    monkeypatch.setenv("VERACITY_DATA", str(tmp_path))
    assert pretrained("adult-lr")(torch.ones(1, 13)).tolist() == [[sum(range(13)) + 1.0, sum(range(13, 26)) - 1.0]]
    torch.save({**given, "more": torch.zeros(1)}, path)
    with pytest.raises(InputError, match=r"holds .* tensors, of which number .* but the network has .*: it is another network's file"):
        pretrained("adult-lr")


def test_what_is_missing_or_wrong_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VERACITY_DATA", str(tmp_path))
    with pytest.raises(InputError, match=r"Looked for .*gef/ann_adult.pt .* get it from github.com/annahedstroem/GEF"):
        pretrained("adult-mlp3")
    with pytest.raises(InputError, match=r"Looked for .*LR_heloc_lr_0.002_acc_0.72.pt .* get it from github.com/AI4LIFE-GROUP/OpenXAI"):
        pretrained("heloc-lr")
    with pytest.raises(SpecError, match=r"Unknown network 'avila'. Did you mean 'avila-relu'\?"):
        pretrained("avila")
    with pytest.raises(InputError, match=r"needs the number of features and of classes, not 1 size"):
        mlp(3)
