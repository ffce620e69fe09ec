"""Cross-training: each fold once, found again after a crash, and every trainer that went wrong told in one sentence."""

import multiprocessing
import random
import time

import numpy as np
import pytest
import torch
from sklearn.model_selection import KFold
from torch import nn

from veracity.core.errors import InputError, Note, SpecError
from veracity.core.inputs import TensorInputs
from veracity.core.training import CrossTrained
from veracity.engine.crosstrain.training import FoldTraining
from veracity.engine.store import RunFolder


def blobs(count=60, classes=3, seed=0):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % classes
    return torch.randn(count, 4, generator=generator) + 3.0 * torch.eye(4)[labels], labels


def network():
    return nn.Linear(4, 3)


def solved(inputs, targets, model=None):
    """The nearest mean: linear, and the same to the last bit wherever it is computed."""
    model = nn.Linear(4, 3) if model is None else model
    means = torch.stack([inputs[targets == label].double().mean(0) for label in range(3)]).float()
    with torch.no_grad():
        model.weight.copy_(means)
        model.bias.copy_(-0.5 * (means * means).sum(1))
    return model


def plain_fit(inputs, targets, seed):
    return solved(inputs, targets)


def run(given, folder, data=None):
    inputs, labels = blobs() if data is None else data
    return FoldTraining(given, TensorInputs(inputs), labels).train(RunFolder(str(folder)), progress=False)


def test_each_model_learns_from_all_folds_but_its_own(tmp_path):
    inputs, labels = blobs()
    found = run(CrossTrained(fit=plain_fit, folds=5, seed=2), tmp_path)
    assert len(found.modules) == 5
    for fold, model in enumerate(found.modules):
        alone = solved(inputs[found.members != fold], labels[found.members != fold])
        assert torch.equal(model.weight, alone.weight)
        assert not model.training
    assert [record["held_out"] for record in found.records] == [12] * 5
    assert [record["trained_on"] for record in found.records] == [48] * 5


def test_finished_folds_are_found_again(tmp_path):
    first = run(CrossTrained(fit=plain_fit, build=network), tmp_path)
    files = {path: path.stat().st_mtime_ns for path in (tmp_path / "models").iterdir()}
    assert len(files) == 5
    again = run(CrossTrained(fit=plain_fit, build=network), tmp_path)
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "models").iterdir()} == files
    for one, other in zip(first.modules, again.modules, strict=True):
        assert torch.equal(one.weight, other.weight)
    assert [record["seconds"] for record in again.records] == pytest.approx([record["seconds"] for record in first.records])


def test_a_training_that_was_stopped_goes_on_where_it_was(tmp_path):
    given = CrossTrained(fit=stopping, build=network)
    CALLS.clear()
    STOP.append(2)
    with pytest.raises(KeyboardInterrupt):
        run(given, tmp_path)
    assert len(list((tmp_path / "models").iterdir())) == 2
    STOP.clear()
    CALLS.clear()
    found = run(given, tmp_path)
    assert CALLS == [48] * 3
    whole = run(CrossTrained(fit=plain_fit, build=network), tmp_path / "other")
    for one, other in zip(found.modules, whole.modules, strict=True):
        assert torch.equal(one.weight, other.weight)


CALLS: list[int] = []
STOP: list[int] = []


class Stopping:
    """A trainer whose state does not count: what it holds is looked up elsewhere."""

    def spec(self):
        return {"name": "stopping"}

    def __call__(self, inputs, targets, seed):
        if STOP and len(CALLS) >= STOP[0]:
            raise KeyboardInterrupt
        CALLS.append(len(inputs))
        return solved(inputs, targets)


stopping = Stopping()


def test_without_build_the_shape_comes_from_a_few_samples(tmp_path):
    given = CrossTrained(fit=stopping)
    run(given, tmp_path)
    CALLS.clear()
    run(given, tmp_path)
    assert CALLS == [6]


class Shifted(nn.Module):
    """Keeps a mean outside of its state_dict."""

    def __init__(self, mean=0.0):
        super().__init__()
        self.inner, self.mean = nn.Linear(4, 3), mean

    def forward(self, x):
        return self.inner(x - self.mean)


def test_a_model_that_its_weights_do_not_bring_back_is_trained_again(tmp_path):
    def fit(inputs, targets, seed):
        model = Shifted(inputs.mean(0))
        solved(inputs - model.mean, targets, model.inner)
        return model

    first = run(CrossTrained(fit=fit, build=Shifted), tmp_path)
    with pytest.warns(Note, match="cannot be brought back from its weights alone"):
        again = run(CrossTrained(fit=fit, build=Shifted), tmp_path)
    inputs, _ = blobs()
    assert torch.equal(first.modules[0](inputs), again.modules[0](inputs))


def test_other_data_labels_seed_or_code_are_trained_anew(tmp_path):
    inputs, labels = blobs()

    def other(inputs, targets, seed):
        model = solved(inputs, targets)
        model.bias.data += 0.01
        return model

    for count, (given, data) in enumerate(
        [
            (CrossTrained(fit=plain_fit, build=network), (inputs, labels)),
            (CrossTrained(fit=plain_fit, build=network), (inputs + 1.0, labels)),
            (CrossTrained(fit=plain_fit, build=network, seed=1), (inputs, labels)),
            (CrossTrained(fit=other, build=network), (inputs, labels)),
        ],
        start=1,
    ):
        run(given, tmp_path, data)
        assert len(list((tmp_path / "models").iterdir())) == 5 * count


def test_seeds_are_shared_unless_asked_otherwise(tmp_path):
    seen = []

    def fit(inputs, targets, seed):
        seen.append((seed, torch.initial_seed()))
        return solved(inputs, targets)

    run(CrossTrained(fit=fit, build=network, seed=4), tmp_path / "one")
    run(CrossTrained(fit=fit, build=network, seed=4, reseed=True), tmp_path / "two")
    assert seen == [(4, 4)] * 5 + [(4 + fold, 4 + fold) for fold in range(5)]


def test_global_random_states_come_back(tmp_path):
    def fit(inputs, targets, seed):
        torch.rand(3), np.random.rand(3), random.random()  # noqa: NPY002
        return solved(inputs, targets)

    torch.manual_seed(7), np.random.seed(7), random.seed(7)  # noqa: NPY002
    run(CrossTrained(fit=fit), tmp_path)
    seen = (torch.rand(1).item(), np.random.rand(), random.random())  # noqa: NPY002
    torch.manual_seed(7), np.random.seed(7), random.seed(7)  # noqa: NPY002
    assert seen == (torch.rand(1).item(), np.random.rand(), random.random())  # noqa: NPY002


def test_a_trainer_that_takes_progress_gets_a_function_to_report_it(tmp_path):
    given = []

    def fit(inputs, targets, seed, progress):
        progress(1, 2, "half")
        given.append(progress)
        return solved(inputs, targets)

    run(CrossTrained(fit=fit), tmp_path)
    assert len(given) == 5


def test_splitters_and_given_models(tmp_path):
    found = run(CrossTrained(fit=plain_fit, folds=KFold(3)), tmp_path)
    assert found.members.tolist() == [0] * 20 + [1] * 20 + [2] * 20
    given = run(CrossTrained(models=list(found.modules), folds=found.members), tmp_path)
    assert given.modules == found.modules
    assert torch.equal(given.members, found.members)


def test_more_data_than_is_audited(tmp_path):
    inputs, labels = blobs()
    place = torch.arange(3, 60, 2)
    given = CrossTrained(fit=plain_fit, data=(inputs, labels), place=place, build=network)
    found = run(given, tmp_path, (inputs[place], labels[place]))
    whole = run(CrossTrained(fit=plain_fit, build=network), tmp_path)
    assert torch.equal(found.members, whole.members[place])
    assert torch.equal(found.modules[2].weight, whole.modules[2].weight)


def test_trained_models_may_be_kept_elsewhere(tmp_path):
    given = CrossTrained(fit=plain_fit, build=network, folder=str(tmp_path / "shared"))
    run(given, tmp_path / "one")
    assert not (tmp_path / "one" / "models").exists()
    assert len(list((tmp_path / "shared" / "models").iterdir())) == 5


def test_untrained_networks_stand_in(tmp_path):
    inputs, labels = blobs()
    store = RunFolder(str(tmp_path / "nowhere"))
    found = FoldTraining(CrossTrained(fit=plain_fit, build=network), TensorInputs(inputs), labels).load(store)
    assert found is not None
    assert len(found.modules) == 5
    assert FoldTraining(CrossTrained(fit=plain_fit), TensorInputs(inputs), labels).load(store) is None
    assert not (tmp_path / "nowhere").exists()


def untrained(inputs, targets, seed):
    model = nn.Linear(4, 3)
    nn.init.constant_(model.weight, 0.5)
    return model


@pytest.mark.parametrize(
    ("fit", "sentence"),
    [
        (untrained, r"is right on \d+ of 240 samples that it was trained on.*it is untrained"),
        (lambda inputs, targets, seed: "model", "must return a torch.nn.Module, not str"),
        (lambda inputs, targets, seed: nn.Linear(4, 2), r"gives outputs of shape \(2,\) per sample, not one for each of the 3 classes"),
        (lambda inputs, targets, seed: nn.Linear(5, 3), "cannot take the inputs it was given"),
        (lambda inputs, targets, seed: 1 / 0, "fit failed on 240 samples without fold 0 with ZeroDivisionError"),
        (lambda inputs, targets, seed: solved(*blobs(seed=5)), "the same weights for folds 0 and 1"),
    ],
)
def test_trainers_that_went_wrong(tmp_path, fit, sentence):
    with pytest.raises(InputError, match=sentence):
        run(CrossTrained(fit=fit), tmp_path, blobs(300))


def test_networks_of_another_shape_are_refused(tmp_path):
    calls = []

    def fit(inputs, targets, seed):
        calls.append(1)
        head = solved(inputs, targets)
        return head if len(calls) == 1 else nn.Sequential(head)

    with pytest.raises(InputError, match=r"different networks for folds 0 and 1: 'weight' is \(3, 4\) in one and missing in the other"):
        run(CrossTrained(fit=fit), tmp_path)


def test_diverged_trainings_are_refused(tmp_path):
    def fit(inputs, targets, seed):
        model = solved(inputs, targets)
        model.bias.data[0] = torch.nan
        return model

    with pytest.raises(InputError, match="gives NaN or infinity: the training diverged"):
        run(CrossTrained(fit=fit), tmp_path)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (CrossTrained(), "needs fit=..., a function"),
        (CrossTrained(fit=3), "needs fit=..., a function"),
        (CrossTrained(fit=plain_fit, models=[network()]), "needs either fit=... or models"),
        (CrossTrained(models=[network()]), "needs folds=..., the number of the fold"),
        (CrossTrained(models=["net"], folds=[0, 1]), "must hold torch.nn.Modules, not str"),
        (CrossTrained(models=[network()] * 3, folds=torch.arange(60) % 2), "3 trained models for 2 folds"),
        (
            CrossTrained(models=[nn.Linear(9, 3)] * 2, folds=torch.arange(60) % 2),
            "the model of fold 0 fails on the inputs with RuntimeError",
        ),
        (CrossTrained(fit=plain_fit, data=blobs()), "place=... must be the index of each of the 60 audited inputs"),
        (CrossTrained(fit=plain_fit, data=blobs(seed=9), place=torch.arange(60)), "are not those that are audited"),
        (CrossTrained(fit=plain_fit, data=blobs(), place=torch.arange(60) + 1), "between 0 and 59"),
        (CrossTrained(fit=plain_fit, data=3), "is a pair"),
        (CrossTrained(fit="smal_cnn"), "Did you mean 'small_cnn'"),
    ],
)
def test_what_cannot_be_cross_trained(tmp_path, given, sentence):
    with pytest.raises((InputError, SpecError), match=sentence):
        run(given, tmp_path)


@pytest.mark.parametrize("labels", [None, torch.rand(60), torch.arange(60) % 3 - 1])
def test_labels_are_class_numbers(tmp_path, labels):
    inputs, _ = blobs()
    with pytest.raises(InputError, match="cross-trained, which needs"):
        FoldTraining(CrossTrained(fit=plain_fit), TensorInputs(inputs), labels).train(RunFolder(str(tmp_path)), progress=False)


def slow_fit(inputs, targets, seed):
    time.sleep(0.4)
    return solved(inputs, targets)


def train_slowly(folder):
    torch.set_num_threads(1)
    run(CrossTrained(fit=slow_fit, build=network), folder)


@pytest.mark.subprocess
def test_killed_in_the_middle_the_finished_folds_are_not_trained_again(tmp_path):
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["veracity.audit"])
    process = context.Process(target=train_slowly, args=(tmp_path / "killed",))
    process.start()
    kept = tmp_path / "killed" / "models"
    while not kept.exists() or len([path for path in kept.iterdir() if not path.name.startswith(".")]) < 2:
        time.sleep(0.02)
    process.kill()
    process.join()
    before = {path.name: path.stat().st_mtime_ns for path in kept.iterdir() if not path.name.startswith(".")}
    assert 2 <= len(before) < 5
    found = run(CrossTrained(fit=slow_fit, build=network), tmp_path / "killed")
    after = {path.name: path.stat().st_mtime_ns for path in kept.iterdir() if not path.name.startswith(".")}
    assert {name: after[name] for name in before} == before
    assert len(after) == 5
    whole = run(CrossTrained(fit=plain_fit, build=network), tmp_path / "whole")
    for one, other in zip(found.modules, whole.modules, strict=True):
        assert torch.equal(one.weight, other.weight)


def test_a_network_that_is_not_the_one_trained_is_told_after_the_first_fold(tmp_path):
    with pytest.raises(InputError, match="makes another network than fit returns"):
        run(CrossTrained(fit=plain_fit, build=lambda: nn.Linear(4, 4)), tmp_path)
    assert not (tmp_path / "models").exists()


HISTORY: list[int] = []


def remembering(inputs, targets, seed):
    HISTORY.append(len(inputs))
    return solved(inputs, targets)


def test_a_trainer_that_keeps_a_history_is_known_again(tmp_path):
    HISTORY.clear()
    run(CrossTrained(fit=remembering, build=network), tmp_path)
    assert len(HISTORY) == 5
    assert len(list((tmp_path / "models").iterdir())) == 5
    HISTORY.clear()
    run(CrossTrained(fit=remembering, build=network), tmp_path)
    assert len(HISTORY) == 0


def test_a_model_of_double_precision_comes_back_as_it_was(tmp_path):
    inputs, labels = blobs()

    def fit(inputs, targets, seed):
        return solved(inputs, targets).double()

    first = run(CrossTrained(fit=fit, build=lambda: nn.Linear(4, 3)), tmp_path, (inputs.double(), labels))
    again = run(CrossTrained(fit=fit, build=lambda: nn.Linear(4, 3)), tmp_path, (inputs.double(), labels))
    assert again.modules[0].weight.dtype is torch.float64
    assert again.fingerprints == first.fingerprints


@pytest.mark.parametrize("correct", [0.94, 1.0])
def test_rare_classes_do_not_make_a_model_untrained(correct):
    from veracity.engine.crosstrain.training import at_chance

    labels = torch.cat((torch.zeros(376), torch.ones(24))).long()
    predicted = labels.clone()
    predicted[: int(376 * (1 - correct))] = 1
    assert not at_chance(predicted, labels)
    assert at_chance(torch.zeros(400).long(), labels)
    assert at_chance(torch.arange(400) % 2, labels)
    assert not at_chance(torch.tensor([0, 1, 0]), torch.tensor([0, 1, 1]))
