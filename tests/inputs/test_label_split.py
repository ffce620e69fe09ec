"""Labels beside samples: found, said, and kept apart from the inputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

import veracity
from text_models import text_model, tokenizer
from veracity.core.errors import InputError, Note
from veracity.inputs import as_inputs, split_labels

X = torch.arange(12.0).reshape(4, 3)
Y = torch.tensor([0, 1, 0, 1])


def rows(given: Any) -> list[Any]:
    inputs = as_inputs(given)
    return inputs.take(torch.arange(inputs.size())).values.tolist()  # type: ignore[no-any-return]


def numbers(labels: Any) -> list[int]:
    return [int(one) for one in labels]


class Stream(IterableDataset[Any]):
    """Samples without a number."""

    def __iter__(self) -> Any:
        return iter(list(zip(X, Y, strict=True)))


class KnownStream(Stream):
    """Samples without a number, whose count is known."""

    def __len__(self) -> int:
        return len(X)


class Words(Dataset[Any]):
    """Texts with labels, as Hugging Face gives them."""

    def __len__(self) -> int:
        return 2

    def __getitem__(self, row: int) -> dict[str, Any]:
        return {"text": ["a fine film", "a dull one"][row], "label": row}


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        ({"x": X, "y": Y}, "The entry 'y'"),
        ([{"x": row, "label": int(label)} for row, label in zip(X, Y, strict=True)], "The entry 'label'"),
        (list(zip(X, Y, strict=True)), "The last entry of each sample"),
        ([(row.numpy(), int(label)) for row, label in zip(X, Y, strict=True)], "The last entry of each sample"),
        (TensorDataset(X, Y), "The last entry of each sample"),
        (Stream(), "The last entry of each sample"),
        (KnownStream(), "The last entry of each sample"),
    ],
)
def test_labels_are_found_and_said(given: Any, taken: str) -> None:
    with pytest.warns(Note, match=f"^{taken} was taken for the labels"):
        assert numbers(split_labels(given).labels) == Y.tolist()
    with pytest.warns(Note):
        assert rows(given) == X.tolist()


@pytest.mark.parametrize("given", [X, X.numpy(), TensorDataset(X), {"y": X}, {"a": X, "b": X}, (X, X), X.tolist(), list(X)])
@pytest.mark.filterwarnings("error")
def test_nothing_is_taken_where_there_are_no_labels(given: Any) -> None:
    assert split_labels(given).labels is None
    as_inputs(given)


def test_labels_beside_the_inputs_are_the_targets() -> None:
    net = torch.nn.Linear(3, 2).eval()
    with pytest.warns(Note, match="The entry 'y'"):
        assert numbers(veracity.Audit(models=net, inputs={"x": X, "y": Y}).labels) == Y.tolist()
    with pytest.warns(Note, match="The entry 'y' was left out, since it looks like labels and targets are given"):
        assert numbers(veracity.Audit(models=net, inputs={"x": X, "y": Y}, targets=1 - Y).labels) == (1 - Y).tolist()


@pytest.mark.parametrize("given", [DataLoader(TensorDataset(X, Y), batch_size=3, shuffle=True), DataLoader(Stream())])
def test_a_loader_is_refused(given: Any) -> None:
    with pytest.raises(InputError, match=r"^The inputs are a DataLoader, .*: pass its dataset, inputs=loader\.dataset, and"):
        split_labels(given)


class Noisy(Dataset[Any]):
    """Samples that are drawn when they are read."""

    def __len__(self) -> int:
        return 2

    def __getitem__(self, row: int) -> tuple[Tensor, int]:
        return torch.rand(2) + float(np.random.rand()), row  # noqa: NPY002


def test_a_dataset_that_draws_gives_the_same_samples_and_leaves_the_random_state() -> None:
    given = Noisy()
    before, array = torch.get_rng_state(), np.random.get_state()[2]  # noqa: NPY002
    with pytest.warns(Note):
        assert rows(given) == rows(given)
    assert torch.equal(before, torch.get_rng_state())
    assert np.random.get_state()[2] == array  # noqa: NPY002


def test_a_dataset_of_texts_gives_texts() -> None:
    with pytest.warns(Note, match="The entry 'label'"):
        found = split_labels(Words())
    assert found.samples == ["a fine film", "a dull one"]
    assert found.labels == [0, 1]


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ([{"x": X[0], "y": 1}, {"x": X[1]}], "Sample 0 has the entries x, y, but sample 1 has the entries x: give all"),
        ([{"x": X[0]}, {"x": X[1], "y": 1}], "Sample 0 has the entries x, but sample 1 has the entries x, y: give all"),
        ([(X[0], 1), (X[1],)], "Sample 0 has 2 entries, but sample 1 has 1 entry: give all"),
        ([(X[0], 1), X[1]], "Sample 0 has 2 entries, but sample 1 has the type Tensor: give all"),
    ],
)
def test_samples_with_other_entries_than_the_first(given: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        split_labels(given)


@pytest.mark.parametrize("labels", [(1, 0), ("good", "bad")], ids=["numbers", "names"])
def test_texts_with_labels_for_a_pipeline(labels: tuple[Any, Any]) -> None:
    transformers = pytest.importorskip("transformers")
    pipeline = transformers.TextClassificationPipeline(model=text_model(id2label={0: "bad", 1: "good"}), tokenizer=tokenizer())
    texts = ["a fine film", "dull"]
    audit = veracity.Audit(models=pipeline, inputs=list(zip(texts, labels, strict=True)))
    with pytest.warns(Note, match="The last entry of each sample was taken for the labels"):
        assert numbers(audit.labels) == [1, 0]
    assert audit.given.samples == texts
    assert numbers(veracity.Audit(models=pipeline, inputs=texts, targets=list(labels)).labels) == [1, 0]
    with pytest.raises(InputError, match=r"The target 'fair' is not one of the classes .*: bad, good"):
        _ = veracity.Audit(models=pipeline, inputs=texts, targets=["good", "fair"]).labels


class TwoInputs(torch.nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return x + y


class OwnLoss(torch.nn.Module):
    def forward(self, x: Tensor, y: Tensor | None = None) -> Tensor:
        return x


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("model", [TwoInputs(), lambda x, y: x + y], ids=["module", "function"])
@pytest.mark.parametrize("given", [{"x": X, "y": X}, [{"x": row, "y": row} for row in X]], ids=["arrays", "samples"])
def test_an_input_that_the_model_needs_is_no_label(model: Any, given: Any) -> None:
    audit = veracity.Audit(models=model, inputs=given)
    assert audit.labels is None
    assert audit.data.take(torch.tensor([1])).through(audit.data.adapt(audit.modules["model"])).tolist() == [(2 * X[1]).tolist()]


def test_an_input_that_the_model_can_do_without_is_a_label() -> None:
    with pytest.warns(Note, match="The entry 'y' was taken for the labels"):
        assert numbers(veracity.Audit(models=OwnLoss(), inputs={"x": X, "y": Y}).labels) == Y.tolist()
