from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from veracity.core.errors import InputError
from veracity.core.inputs import TensorInputs
from veracity.core.training import Checkpoint, Training
from veracity.engine.resolve import as_checkpoint, as_checkpoints, as_training

X, Y = torch.arange(12.0).reshape(6, 2), torch.tensor([0, 1, 2, 0, 1, 2])


@pytest.mark.parametrize(
    "given",
    [{1, 2}, torch.tensor([False, True, True, False, True, True]), lambda x, y: (y > 0) & (x[:, 0] >= 0), lambda x, y: (y != 0).tolist()],
    ids=["labels", "mask", "function", "list"],
)
def test_concepts_from_labels_a_mask_or_a_function(given: Any) -> None:
    training = as_training((X, Y), {"late": given})
    assert training is not None
    assert training.concepts["late"].tolist() == [False, True, True, False, True, True]


@pytest.mark.parametrize(
    ("concepts", "message"),
    [
        ({"none": {7}}, "No training example shows the concept 'none'"),
        ({"all": {0, 1, 2}}, "Every training example shows the concept 'all'"),
        ({"short": torch.ones(3, dtype=torch.bool)}, "one True or False for each of the 6"),
        ({"numbers": torch.ones(6)}, "not torch.float32"),
        ({"odd": lambda x, y: torch.ones(2)}, r"not torch.float32 of shape \(2,\)"),
        ({"names": {"shoe"}}, "set of labels"),
        ({"text": "shoe"}, "set of labels"),
        ({"nothing": None}, "set of labels"),
        ({"broken": lambda x, y: 1 / 0}, "failed with ZeroDivisionError"),
        ({"short": lambda x: x}, "failed with TypeError"),
    ],
)
def test_concepts_that_are_none(concepts: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        as_training((X, Y), concepts)


def test_training_sets_that_are_none() -> None:
    assert as_training(None, None) is None
    with pytest.raises(InputError, match="Concepts need examples"):
        as_training(None, {"late": {1}})
    with pytest.raises(InputError, match="a pair"):
        as_training(X, None)
    with pytest.raises(InputError, match="needs labels"):
        as_training((X, None), None)
    with pytest.raises(InputError, match=r"one per example \(6\)"):
        as_training((X, Y[:3]), None)
    with pytest.raises(InputError, match="NaN or infinity: leave these examples out"):
        as_training((X, Y / 0.0), None)
    real = as_training((X, Y + 0.5), None)
    assert real is not None
    assert real.labels.tolist() == (Y + 0.5).tolist()
    with pytest.raises(InputError, match="The concepts are"):
        as_training((X, Y), [1])
    with pytest.raises(InputError, match="must be an Inputs"):
        Training(X, Y)  # type: ignore[arg-type]


def test_checkpoints_from_states_files_and_pairs(tmp_path: Path) -> None:
    net = nn.Linear(2, 3)
    state = {key: value.clone() for key, value in net.state_dict().items()}
    save_file(state, tmp_path / "one.safetensors")
    torch.save(state, tmp_path / "two.pt")
    torch.save({"epoch": 3, "model": state}, tmp_path / "three.pt")
    listed: list[Any] = [state, tmp_path / "one.safetensors", str(tmp_path / "two.pt"), tmp_path / "three.pt"]
    found = as_checkpoints({"net": listed}, {"net": net})["net"]
    rated = as_checkpoints({"net": [(state, 0.5), [tmp_path / "two.pt", 0.1], Checkpoint(state, 2.0)]}, {"net": net})["net"]
    assert [one.rate for one in (*found, *rated)] == [1.0] * 4 + [0.5, 0.1, 2.0]
    for one in (*found, *rated):
        assert torch.equal(one.state["weight"], state["weight"])
    with pytest.raises(InputError, match="give all of them one, or none"):
        as_checkpoints({"net": [state, (state, 0.5)]}, {"net": net})
    with pytest.raises(InputError, match="at least 0, not -1"):
        as_checkpoints({"net": [(state, -1.0)]}, {"net": net})


def test_a_checkpoint_of_another_architecture_names_what_differs(tmp_path: Path) -> None:
    net = nn.Linear(2, 3)
    with pytest.raises(InputError, match=r"another architecture: 'weight' is \(3, 2\) in the model and \(4, 2\)"):
        as_checkpoints({"net": [nn.Linear(2, 4).state_dict()]}, {"net": net})
    with pytest.raises(InputError, match=r"'0\.weight' is nothing in the model"):
        as_checkpoints({"net": [{**net.state_dict(), "0.weight": torch.ones(1)}]}, {"net": net})
    with pytest.raises(InputError, match="not audited"):
        as_checkpoints({"other": []}, {"net": net})
    for wrong in (3, [3, 4, 5], None):
        with pytest.raises(InputError, match="A checkpoint is a state dict"):
            as_checkpoint(wrong)
    with pytest.raises(InputError, match="number of at least 0, not 'fast'"):
        as_checkpoint((net.state_dict(), "fast"))
    with pytest.raises(InputError, match="are a list"):
        as_checkpoints({"net": net.state_dict()}, {"net": net})
    with pytest.raises(InputError, match="The checkpoints are"):
        as_checkpoints([net.state_dict()], {"net": net})
    with pytest.raises(InputError, match="holds NaN"):
        as_checkpoints({"net": [{key: value * torch.nan for key, value in net.state_dict().items()}]}, {"net": net})
    (tmp_path / "bad.safetensors").write_bytes(b"nothing")
    with pytest.raises(InputError, match="cannot be read as weights"):
        as_checkpoint(tmp_path / "bad.safetensors")
    with pytest.raises(InputError, match="There is no checkpoint"):
        as_checkpoint(tmp_path / "none.pt")
    torch.save({"code": object}, tmp_path / "code.pt")
    with pytest.raises(InputError, match="holds pickled Python objects: save the weights alone"):
        as_checkpoint(tmp_path / "code.pt")


def test_checkpoints_are_renamed_as_a_view_names_them() -> None:
    class View(nn.Module):
        def __init__(self, inner: nn.Module) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, x: Tensor) -> Any:
            return self.inner(x)

    net = nn.Linear(2, 3)
    training = Training(TensorInputs(X), Y, checkpoints=(Checkpoint(net.state_dict()),))
    assert set(training.seen_by(View(net), net).checkpoints[0].state) == {"inner.weight", "inner.bias"}
    assert set(training.seen_by(net, net).checkpoints[0].state) == {"weight", "bias"}


def test_the_hash_of_a_training_follows_its_parts() -> None:
    base = Training(TensorInputs(X), Y)
    others = [
        Training(TensorInputs(X + 1), Y),
        Training(TensorInputs(X), Y.flip(0)),
        Training(TensorInputs(X), Y, {"late": Y > 0}),
        Training(TensorInputs(X), Y, {}, (Checkpoint({"w": torch.ones(1)}),)),
        Training(TensorInputs(X), Y, {}, (Checkpoint({"w": torch.ones(1)}, 2.0),)),
    ]
    assert len({one.fingerprint() for one in (base, *others)}) == 6
    early, late = {"a": Y > 0, "b": Y > 1}, {"b": Y > 1, "a": Y > 0}
    assert Training(TensorInputs(X), Y, early).fingerprint() != Training(TensorInputs(X), Y, late).fingerprint()
