"""Datasets that are read by blocks: how often, in which order, and what an audit makes of them."""

from __future__ import annotations

import pickle
import weakref
from array import array
from multiprocessing import active_children
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.sparse import csr_matrix
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Subset

import veracity
from small import small_net
from veracity.core.errors import InputError, Note
from veracity.inputs import DatasetInputs
from veracity.inputs.chunks import CHUNK
from veracity.inputs.convert import as_inputs
from veracity.inputs.entries import Entry
from veracity.inputs.labels import split_labels

SETTINGS: dict[str, Any] = {
    "models": small_net(),
    "explainers": ["saliency"],
    "scores": ["sparseness", "local_lipschitz"],
    "controls": False,
    "companions": False,
}
pytestmark = pytest.mark.filterwarnings("ignore:.*taken for the labels")


def values_of(number: int) -> Tensor:
    return torch.randn(1, 12, generator=torch.Generator().manual_seed(number))


class Counted(Dataset[Any]):
    """Samples made on the fly, which count how often they are read and how many of them are alive."""

    def __init__(self, size: int = 200) -> None:
        self.size, self.reads, self.alive, self.most = size, list[int](), 0, 0

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, number: int) -> tuple[Any, int]:
        self.reads.append(number)
        sample = values_of(number).numpy()
        self.alive += 1
        self.most = max(self.most, self.alive)
        weakref.finalize(sample, self.leave)
        return sample, number % 3

    def leave(self) -> None:
        self.alive -= 1


class Plain(Dataset[Any]):
    """The same samples, for other processes."""

    def __len__(self) -> int:
        return 200

    def __getitem__(self, number: int) -> tuple[Tensor, int]:
        return values_of(number), number % 3


def in_memory(size: int = 200) -> tuple[Tensor, Tensor]:
    return torch.stack([values_of(number) for number in range(size)]), torch.arange(size) % 3


def test_an_audit_gives_the_same_numbers_as_with_a_tensor_and_reads_each_sample_once(tmp_path: Path) -> None:
    data = Counted()
    x, y = in_memory()
    whole = veracity.Audit(inputs=x, targets=y, **SETTINGS).run(tmp_path / "whole", progress=False)
    read = veracity.Audit(inputs=data, **SETTINGS).run(tmp_path / "read", progress=False)
    pd.testing.assert_frame_equal(whole.table(), read.table(), check_exact=True)
    for score in SETTINGS["scores"]:
        pd.testing.assert_frame_equal(whole.samples(score), read.samples(score), check_exact=True)
    assert whole.manifest["models"]["model"]["accuracy"] == read.manifest["models"]["model"]["accuracy"]
    assert [number for number in data.reads if number] == list(range(1, 200))
    assert data.reads.count(0) <= 4  # its shape and its entries are looked at first
    assert data.most <= CHUNK


@pytest.mark.usefixtures("forked")
def test_worker_processes_read_for_themselves(tmp_path: Path) -> None:
    x, y = in_memory()
    whole = veracity.Audit(inputs=x, targets=y, **SETTINGS).run(tmp_path / "whole", progress=False)
    read = veracity.Audit(inputs=Plain(), **SETTINGS).run(tmp_path / "read", workers=2, progress=False)
    pd.testing.assert_frame_equal(whole.table(), read.table(), check_exact=True)


@pytest.mark.parametrize("settings", [{"workers": 0}, {"workers": 1}, {"held": 1}, {"version": "1"}], ids=str)
def test_no_setting_changes_the_samples(settings: dict[str, Any]) -> None:
    inputs, (x, y) = DatasetInputs(Plain(), **settings), in_memory()
    for part in torch.arange(200).split(70):
        assert torch.equal(inputs.take(part).values, x[part])
    assert torch.equal(inputs.take(torch.tensor([199, 3, 64, 3])).values, x[[199, 3, 64, 3]])
    assert torch.equal(inputs.labels(), y)
    assert torch.equal(inputs.labels_at(torch.tensor([5, 100])), y[[5, 100]])
    assert inputs.span() == (float(x.min()), float(x.max()))


def test_converted_samples_and_their_labels_are_read_once() -> None:
    class Double(Counted):
        def __getitem__(self, number: int) -> tuple[Any, int]:
            values, label = super().__getitem__(number)
            return values.astype(np.float64), label

    data = Double()
    audit = veracity.Audit(inputs=data, **SETTINGS)
    with pytest.warns(veracity.core.errors.Note, match="converted to float32"):
        audit.data.fingerprint()
    read = len(data.reads)
    assert audit.labels is not None
    assert audit.labels.tolist() == [number % 3 for number in range(200)]
    assert len(data.reads) == read


@pytest.mark.parametrize("workers", [None, 1])
def test_nothing_reads_ahead_after_a_run(workers: int | None, tmp_path: Path) -> None:
    inputs, before = DatasetInputs(Plain(), workers=workers), set(active_children())
    veracity.Audit(inputs=inputs, **SETTINGS).run(tmp_path / "run", progress=False)
    assert inputs.reader.pool is None
    assert set(active_children()) <= before  # those of other tests may have ended
    assert torch.equal(inputs.take(torch.arange(200)).values, in_memory()[0])
    inputs.reader.close()


def test_few_samples_are_held() -> None:
    data = Counted(CHUNK * 20)
    inputs = DatasetInputs(data, held=4 * CHUNK * 12 * 4)
    for _ in range(2):
        for part in torch.arange(len(data)).split(CHUNK):
            inputs.take(part)
            assert inputs.reader.bytes <= inputs.held
    assert len(data.reads) == 1 + 2 * len(data)  # more than what is held is read again
    inputs.take(part)
    assert len(data.reads) == 1 + 2 * len(data)


def test_a_thread_reads_ahead_in_order() -> None:
    data = Counted(CHUNK * 8)
    inputs = DatasetInputs(data)
    inputs.take(torch.arange(CHUNK))
    inputs.take(torch.arange(CHUNK, 3 * CHUNK))
    for waiting in inputs.reader.coming.values():
        waiting.result()
    assert sorted(inputs.reader.coming) == [3, 4]
    assert data.reads[1:] == list(range(5 * CHUNK))


def test_a_few_scattered_samples_are_read_alone() -> None:
    data = Counted(CHUNK * 8)
    inputs = DatasetInputs(data, workers=0)
    inputs.take(torch.arange(CHUNK))
    data.reads.clear()
    assert torch.equal(inputs.take(torch.tensor([400, 300])).values[0], values_of(400))
    assert sorted(data.reads) == [300, 400]


def test_keys_follow_every_sample_or_the_version() -> None:
    class Changed(Plain):
        def __getitem__(self, number: int) -> tuple[Tensor, int]:
            values, label = super().__getitem__(number)
            return (values + 1e-6, label) if number == 130 else (values, label)

    before, after = DatasetInputs(Plain()), DatasetInputs(Changed())
    assert before.fingerprint() == DatasetInputs(Plain()).fingerprint() != after.fingerprint()
    blocks = torch.arange(200).split(CHUNK)
    assert [before.content_key(part) == after.content_key(part) for part in blocks] == [True, True, False, True]
    even = torch.arange(0, 200, 2)
    assert before.content_key(even) == DatasetInputs(Plain()).content_key(even) != after.content_key(even)
    same = [DatasetInputs(one, version="1") for one in (Plain(), Changed())]
    assert same[0].fingerprint() == same[1].fingerprint() != DatasetInputs(Plain(), version="2").fingerprint()
    assert same[0].content_key(blocks[2]) == same[1].content_key(blocks[2]) != same[0].content_key(blocks[1])


def test_one_version_has_a_key_for_each_shape_and_entry() -> None:
    class Two:
        def __init__(self, side: int) -> None:
            self.side = side

        def __len__(self) -> int:
            return 70

        def __getitem__(self, number: int) -> dict[str, Any]:
            return {name: np.full(self.side, number, np.float32) for name in ("left", "right")}

    given = [DatasetInputs(Two(side), version="1", entry=Entry(name)) for side in (4, 8) for name in ("left", "right")]
    assert len({one.content_key(torch.arange(64)) for one in given}) == 4
    assert len({one.fingerprint() for one in given}) == 4


def test_a_memory_map_is_read_by_slices(tmp_path: Path) -> None:
    x, y = in_memory()
    np.save(tmp_path / "x.npy", x.numpy())
    audit = veracity.Audit(inputs=np.load(tmp_path / "x.npy", mmap_mode="r"), targets=y, **SETTINGS)
    assert isinstance(audit.data, DatasetInputs)
    found = audit.run(tmp_path / "map", progress=False).table()
    whole = veracity.Audit(inputs=x, targets=y, **SETTINGS).run(tmp_path / "whole", progress=False).table()
    pd.testing.assert_frame_equal(found, whole, check_exact=True)


def test_samples_by_name_in_double_precision_are_converted() -> None:
    class Named:
        column_names, features = ("image", "label"), None

        def __len__(self) -> int:
            return 70

        def __getitem__(self, number: int) -> dict[str, Any]:
            return {"image": values_of(number).double().numpy(), "label": number % 3}

    with pytest.warns(veracity.core.errors.Note, match="float64 and were converted to float32"):
        data = veracity.Audit(inputs=Named(), **SETTINGS).data
    assert torch.equal(data.take(torch.arange(70)).values, in_memory(70)[0])


def test_a_default_audit_reads_the_samples_that_it_chooses() -> None:
    data = Counted(CHUNK * 40)
    audit = veracity.Audit(models=small_net(), inputs=data)
    with pytest.warns(veracity.core.errors.Note):
        chosen = audit.complete
    assert chosen.data.size() == 64
    assert chosen.labels is not None
    assert len(chosen.labels) == 64
    assert len(data.reads) < 300


class Random(Plain):
    """Draws from a generator of its own at every read."""

    generator = np.random.default_rng(0)

    def __getitem__(self, number: int) -> tuple[Tensor, int]:
        return torch.from_numpy(self.generator.normal(size=(1, 12)).astype(np.float32)), 0


class Later(Random):
    """The first sample is steady, the others change."""

    def __getitem__(self, number: int) -> tuple[Tensor, int]:
        return super().__getitem__(number) if number else (torch.zeros(1, 12), 0)


class Ragged(Plain):
    def __getitem__(self, number: int) -> tuple[Tensor, int]:
        return torch.zeros(1, 13 if number == 71 else 12), 0


class Broken(Plain):
    def __getitem__(self, number: int) -> tuple[Tensor, int]:
        if number == 71:
            raise FileNotFoundError("photo-71.png")
        return torch.zeros(1, 12), 0


class Holes(Plain):
    def __getitem__(self, number: int) -> tuple[Tensor, int]:
        return torch.full((1, 12), torch.nan if number == 71 else 1.0), 0


class Pixels(Plain):
    def __getitem__(self, number: int) -> tuple[Tensor, int]:
        return torch.zeros(1, 12, dtype=torch.uint8), 0


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (
            Ragged(),
            r"^The samples of the dataset differ in shape: sample 0 has \(1, 12\), sample 71 has \(1, 13\): bring them to one shape.$",
        ),
        (Broken(), r"^Sample 71 of the dataset cannot be read \(FileNotFoundError: photo-71.png\): repair it, or leave it out.$"),
        (Holes(), r"^Sample 71 of the dataset holds NaN or infinity: replace these values"),
        (Pixels(), r"^A sample .* must be an array of floating-point numbers, but sample 0 is uint8 of shape \(1, 12\): convert it"),
        (Random(), r"^Sample 0 of the dataset changed since it was first read: return the same sample for the same number"),
        (DatasetInputs(Later(), held=1), r"^Samples 0 to 63 of the dataset changed since they were first read: return the same"),
    ],
)
def test_bad_datasets(given: Any, sentence: str, tmp_path: Path) -> None:
    audit = veracity.Audit(inputs=given, **SETTINGS)
    if isinstance(given, DatasetInputs):
        for part in torch.arange(200).split(CHUNK):
            audit.data.take(part)
        with pytest.raises(InputError, match=sentence):
            audit.data.take(torch.arange(CHUNK))
        return
    with pytest.raises(InputError, match=sentence):
        audit.run(tmp_path / "run", progress=False)


class BrokenAtOnce(Broken):
    """Reads many samples at once, as datasets of Hugging Face and subsets do."""

    def __getitems__(self, numbers: list[int]) -> list[Any]:
        return [self[number] for number in numbers]


def test_a_sample_with_different_entries_is_named() -> None:
    rows = [{"image": np.zeros(3, np.float32), "label": 1} for _ in range(8)]
    rows[7]["id"] = 7
    with pytest.raises(InputError, match=r"^Sample 7 of the dataset has different entries from sample 0: it has the entries .*id"):
        DatasetInputs(rows).fingerprint()


def test_a_sample_that_cannot_be_read_is_named() -> None:
    with pytest.raises(InputError, match=r"^Sample 71 of the dataset cannot be read \(FileNotFoundError: photo-71.png\)"):
        DatasetInputs(BrokenAtOnce()).fingerprint()
    with pytest.raises(InputError, match=r"^Sample 0 of the dataset cannot be read \(FileNotFoundError: "):
        split_labels(Subset(Broken(), [71, 72]))


def test_memory_maps_of_other_types(tmp_path: Path) -> None:
    x = in_memory()[0]
    np.save(tmp_path / "big.npy", x.numpy().astype(">f4"))
    big = split_labels(np.load(tmp_path / "big.npy", mmap_mode="r")).samples
    assert torch.equal(big.take(torch.arange(200)).values, x)
    assert big.fingerprint() == DatasetInputs(x.numpy()).fingerprint()
    np.save(tmp_path / "long.npy", x.numpy().astype(np.longdouble))
    with pytest.raises(InputError, match=r"must be arrays of floating-point numbers, not of type .*: convert them"):
        split_labels(np.load(tmp_path / "long.npy", mmap_mode="r")).samples.fingerprint()


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_memory_map_travels_as_the_name_of_its_file(order: Any, tmp_path: Path) -> None:
    x = in_memory()[0]
    np.save(tmp_path / "x.npy", np.asarray(x.numpy(), order=order))
    whole = np.load(tmp_path / "x.npy", mmap_mode="r")
    changed = np.load(tmp_path / "x.npy", mmap_mode="c")
    changed += 1
    for given, expected in ((whole, x), (whole[64:], x[64:]), (whole[::2], x[::2]), (changed, x + 1)):
        inputs = DatasetInputs(given)
        assert inputs.shape == x.shape[1:]
        sent = pickle.dumps(inputs)
        if given is whole or (order == "C" and len(expected) == 136):  # others are sent as their numbers
            assert len(sent) < x.numel()
        assert torch.equal(pickle.loads(sent).take(torch.arange(len(expected))).values, expected)
    (tmp_path / "x.npy").unlink()
    with pytest.raises(InputError, match=r"^The memory map .*x.npy cannot be opened in a worker process"):
        pickle.loads(pickle.dumps(DatasetInputs(whole)))


@pytest.mark.parametrize("entry", [Entry("picture"), Entry("image", "klass"), Entry(2), Entry("image", 1)])
def test_an_entry_that_no_sample_has(entry: Entry) -> None:
    given = DatasetInputs([{"image": np.zeros(3, np.float32), "label": 1}], entry=entry)
    with pytest.raises(InputError, match=r"^Sample 0 of the dataset has no entry .*, but the entries image, label: name one of them"):
        given.fingerprint()


@pytest.mark.parametrize("count", [1, 64, 1025, 1035, 1088])
def test_the_first_samples_have_their_labels(count: int) -> None:
    values, labels = DatasetInputs(Counted(1100), workers=0).first(count)
    assert torch.equal(values[-1], values_of(count - 1))
    assert labels.tolist() == [number % 3 for number in range(count)]


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (csr_matrix(np.eye(4, dtype=np.float32)), "must be an array, .*, not csr_matrix.$"),
        (pd.Index([1.0, 2.0]), "^The inputs have the type pandas.Index, which has no rows: pass an array of shape"),
        (array("f", [1, 2]), "^The inputs have the type array.array, which has no rows: pass an array of shape"),
        (memoryview(b"ab"), "must be an array, .*, not memoryview.$"),
    ],
)
def test_what_only_looks_like_a_dataset(given: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        as_inputs(given)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"dataset": iter([1])}, "takes a dataset with __len__ and __getitem__, not list_iterator"),
        ({"dataset": []}, "There are no inputs: the dataset is empty."),
        ({"dataset": Plain(), "workers": -1}, "must be a whole number of at least 0, not -1"),
        ({"dataset": Plain(), "version": 3}, "must be a text, such as 'photos-2024-05', not 3"),
    ],
)
def test_bad_settings(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        DatasetInputs(**settings)


class Augmented(Plain):
    """Adds noise from torch's global generator."""

    def __getitem__(self, number: int) -> tuple[Tensor, int]:
        return values_of(number) + torch.rand(1, 12), 0


def test_a_dataset_that_draws_from_the_global_generators_is_noticed_and_read_alike_each_time() -> None:
    before = torch.get_rng_state()
    inputs = DatasetInputs(Augmented(), held=1)
    with pytest.warns(Note, match="draws from the global random generators"):
        first = inputs.take(torch.arange(CHUNK)).values
    inputs.take(torch.arange(CHUNK, 2 * CHUNK))
    assert torch.equal(inputs.take(torch.arange(CHUNK)).values, first)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_loader_is_not_a_dataset() -> None:
    loader: DataLoader[Any] = DataLoader(Plain())
    with pytest.raises(InputError, match=r"not DataLoader: pass its dataset, loader\.dataset\.$"):
        DatasetInputs(loader)
