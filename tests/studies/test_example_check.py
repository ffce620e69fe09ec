"""Judged explanations by example: every test on models that are trained in an instant, oracles, resuming, and bad input."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from markupsafe import escape
from torch import Tensor, nn

from veracity import ExampleCheck
from veracity.core.errors import InputError, Note, SpecError, VeracityError
from veracity.core.explainers import Context
from veracity.core.inputs import TensorInputs
from veracity.core.randomness import Draws
from veracity.core.training import Checkpoint, Training
from veracity.engine.store import RunFolder
from veracity.explain import InfluenceFunctions, RepresentationSimilarity, TracIn
from veracity.studies import ExampleResult, load
from veracity.studies.example_scores import margins
from veracity.studies.example_tests import (
    ANOTHER_SEED,
    TESTS,
    Case,
    ClassDetection,
    ExampleTest,
    LinearDatamodelling,
    MislabelledHarm,
    MislabelledSelf,
    ModelRandomisation,
    SameClass,
    ShortcutDetection,
    SubclassDetection,
    TailPatch,
    patched,
)
from veracity.studies.retraining import Retraining, World
from veracity.trainers import Trainer
from veracity.trainers.trainer import Keep

N, SAMPLES, CLASSES, FEATURES = 48, 12, 4, 6
CENTRES = torch.tensor([[2.0, 0, 0, 0, 0, 0], [0, 2.0, 0, 0, 0, 0], [0, 0, 2.0, 0, 0, 0], [0, 0, 0, 2.0, 0, 0]])


def blobs(count: int, seed: int) -> tuple[Tensor, Tensor]:
    labels = torch.arange(count) % CLASSES
    return CENTRES[labels] + 0.7 * torch.randn(count, FEATURES, generator=torch.Generator().manual_seed(seed)), labels


class Fit:
    """Softmax regression by gradient descent with weight decay, which counts its trainings and follows the seed very little."""

    def __init__(self, noise: float = 0.01, l2: float = 0.02) -> None:
        self.noise, self.l2, self.calls = noise, l2, 0

    def __call__(self, inputs: Tensor, targets: Tensor, seed: int, checkpoint: Keep | None = None) -> nn.Module:
        self.calls += 1
        model = nn.Linear(FEATURES, int(targets.max()) + 1)
        own = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for value in model.parameters():
                value.copy_(self.noise * torch.randn(value.shape, generator=own))
        weights = list(model.parameters())
        with torch.no_grad():
            weight, bias = weights
            wanted = nn.functional.one_hot(targets, len(bias)).float()
            for step in range(60):
                error = (model(inputs).softmax(1) - wanted) / len(inputs)
                weight -= 0.8 * (error.T @ inputs + self.l2 * weight)
                bias -= 0.8 * (error.sum(0) + self.l2 * bias)
                if checkpoint is not None and step % 20 == 19:
                    checkpoint(model, 0.8)
        return model.eval()

    def spec(self) -> dict[str, object]:
        return {"name": "fit", "noise": self.noise, "l2": self.l2}


def settings(**changed: object) -> dict[str, object]:
    (x, y), (inputs, targets) = blobs(N, 0), blobs(SAMPLES, 1)
    given = {"fit": Fit(), "training": (x, y), "inputs": inputs, "targets": targets, "build": lambda: nn.Linear(FEATURES, CLASSES)}
    explainers = {"influence": InfluenceFunctions(l2=0.02), "tracin": "tracin", "similarity": "representation_similarity"}
    return {**given, "explainers": explainers, "tests": [LinearDatamodelling(subsets=50), *list(TESTS)[1:]], **changed}


def check(folder: Path, **changed: object) -> ExampleResult:
    return ExampleCheck(**settings(**changed)).run(folder, progress=False)


def value(result: ExampleResult, test: str, explainer: str, column: str = "value") -> float:
    rows = result.table().set_index(["test", "explainer"])
    return float(rows.loc[(test, explainer), column])


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> ExampleResult:
    """All tests of all explainers."""
    return check(tmp_path_factory.mktemp("check"), tests=[LinearDatamodelling(subsets=50, seeds=2), *list(TESTS)[1:]])


@pytest.fixture
def case(tmp_path: Path) -> Case:
    (x, y), (inputs, targets) = blobs(N, 0), blobs(SAMPLES, 1)
    return Case(Retraining(Fit(), RunFolder(str(tmp_path)), 0), World(TensorInputs(x), y, TensorInputs(inputs), targets), 0, True)


def prepared(test: ExampleTest, case: Case):
    return test.prepare(case, lambda share, text: None)


def test_influence_predicts_retraining_on_a_convex_problem_and_random_numbers_do_not(whole: ExampleResult) -> None:
    assert value(whole, "linear_datamodelling", "influence") > 0.5
    assert value(whole, "linear_datamodelling", "influence", "gain_low") > 0
    assert (
        value(whole, "linear_datamodelling", "random_examples", "low") < 0 < value(whole, "linear_datamodelling", "random_examples", "high")
    )
    assert value(whole, "linear_datamodelling", ANOTHER_SEED) > 0.9
    assert value(whole, "linear_datamodelling", "influence") < value(whole, "linear_datamodelling", ANOTHER_SEED)


def test_wrong_labels_are_found_and_labels_alone_find_classes(whole: ExampleResult) -> None:
    assert value(whole, "mislabelled_self", "influence") > 0.8
    assert value(whole, "mislabelled_harm", "influence") > 0.8
    assert value(whole, "class_detection", "same_class") == 1.0
    assert value(whole, "class_detection", "same_class", "unseen") == pytest.approx(1 - 0.05 ** (1 / SAMPLES))
    assert value(whole, "class_detection", "random_examples") < 0.7
    assert value(whole, "shortcut_detection", "tracin") > value(whole, "shortcut_detection", "random_examples")
    assert value(whole, "tail_patch", "tracin", "gain_low") > 0


def test_explanations_that_ignore_the_model_keep_their_ranks_under_random_weights(whole: ExampleResult) -> None:
    assert value(whole, "model_randomisation", "random_examples") == 1.0
    assert value(whole, "model_randomisation", "same_class") == 1.0
    assert value(whole, "model_randomisation", "influence") < 1.0
    assert value(whole, "model_randomisation", "influence", "gain") == pytest.approx(1 - value(whole, "model_randomisation", "influence"))


def test_a_table_has_every_explainer_in_every_test_within_its_bounds(whole: ExampleResult) -> None:
    table = whole.table()
    assert whole.failures().empty
    assert len(table) == len(TESTS) * 5 + 1
    for name, kind in TESTS.items():
        rows = table[table["test"] == name]
        least, most = kind.bounds
        assert rows["value"].between(least, most).all()
        assert (rows["low"].fillna(least) >= least).all()
        assert ((rows["low"] <= rows["value"]) & (rows["value"] <= rows["high"])).all()
        assert set(rows["direction"]) == {kind.direction.value}
    assert table["control"].sum() == 2 * len(TESTS) + 1
    assert set(whole.requirements()["explainer"]) == {"influence", "tracin", "similarity"}


def test_the_folder_holds_the_result(whole: ExampleResult) -> None:
    kept = load(whole.path)
    assert isinstance(kept, ExampleResult)
    pd.testing.assert_frame_equal(kept.table(), whole.table())
    assert str(kept) == str(whole)
    assert "Linear datamodelling score" in str(kept)


def test_the_report_shows_every_number_and_escapes_names(whole: ExampleResult, tmp_path: Path) -> None:
    page = whole.save_report(tmp_path / "report.html").read_text()
    assert all(kind.title in page and escape(kind.definition) in page for kind in TESTS.values())
    assert f"<td>{value(whole, 'linear_datamodelling', 'influence'):.3f}</td>" in page
    assert "could not be measured" not in page
    evil = replace(whole, title="<script>", measured=(replace(whole.measured[0], explainer="<b>", error="<i>"), *whole.measured[1:]))
    page = evil.save_report(tmp_path / "evil.html").read_text()
    assert not any(one in page for one in ("<script>", "<b>", "<i>"))
    assert "could not be measured" in page


def test_global_state_is_untouched_and_numbers_repeat(tmp_path: Path) -> None:
    state = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    tests = ["class_detection", "shortcut_detection", "mislabelled_self", "model_randomisation"]
    first, again = (check(tmp_path / name, tests=tests).table() for name in ("one", "two"))
    assert torch.equal(torch.get_rng_state(), state[0])
    assert (np.random.get_state()[1] == state[1]).all()  # noqa: NPY002
    pd.testing.assert_frame_equal(first, again)
    assert not check(tmp_path / "three", tests=tests, seed=1).table().equals(first)


def test_a_killed_run_resumes_with_the_models_that_it_stored(tmp_path: Path) -> None:
    class Killed(BaseException):
        pass

    class Weak(Fit):
        def __call__(self, inputs: Tensor, targets: Tensor, seed: int, checkpoint: Keep | None = None) -> nn.Module:
            if self.calls == 20:
                raise Killed
            return super().__call__(inputs, targets, seed, checkpoint)

    tests = [LinearDatamodelling(subsets=50)]
    weak, strong = Weak(), Fit()
    with pytest.raises(Killed):
        check(tmp_path / "killed", fit=weak, tests=tests)
    resumed = check(tmp_path / "killed", fit=strong, tests=tests)
    assert strong.calls == 51 - 20
    again = Fit()
    check(tmp_path / "killed", fit=again, tests=tests)
    assert again.calls == 0
    pd.testing.assert_frame_equal(resumed.table(), check(tmp_path / "straight", tests=tests).table())


def test_a_damaged_file_is_made_again(tmp_path: Path) -> None:
    tests, fits = [LinearDatamodelling(subsets=50)], [Fit(), Fit(), Fit()]
    before = check(tmp_path, fit=fits[0], tests=tests).table()
    for kind in ("models", "attributions"):
        damaged = sorted((tmp_path / kind).iterdir())[0]
        damaged.write_bytes(damaged.read_bytes()[:-8] + b"12345678")
    pd.testing.assert_frame_equal(check(tmp_path, fit=fits[1], tests=tests).table(), before)
    assert fits[1].calls == 1
    check(tmp_path, fit=fits[2], tests=tests)
    assert fits[2].calls == 0


def test_without_a_builder_one_model_is_trained_again(tmp_path: Path) -> None:
    first, again = Fit(), Fit()
    results = [check(tmp_path, fit=fit, build=None, tests=[LinearDatamodelling(subsets=50)]) for fit in (first, again)]
    assert (first.calls, again.calls) == (51, 1)
    pd.testing.assert_frame_equal(results[0].table(), results[1].table())


def test_a_trainer_gives_checkpoints_and_its_network(tmp_path: Path) -> None:
    trainer = Trainer(network=lambda shape, classes: nn.Linear(shape[0], classes), epochs=7, rate=0.1, validation=0.0)
    result = check(tmp_path, fit=trainer, build=None, tests=["class_detection"], explainers=["tracin"], checkpoints=3)
    assert value(result, "class_detection", "tracin") > 0.7
    states: list[tuple[Tensor, float]] = []
    x, y = blobs(N, 0)
    model = trainer(x, y, 0, checkpoint=lambda network, rate: states.append((network.weight.detach().clone(), rate)))
    assert len(states) == 7
    assert torch.equal(states[-1][0], model.weight)
    assert states[3][1] > states[-1][1] > 0
    check(tmp_path, fit=trainer, build=None, tests=["class_detection"], explainers=["tracin"], checkpoints=3)


def test_a_fit_without_checkpoints_is_noted(tmp_path: Path) -> None:
    def plain(inputs: Tensor, targets: Tensor, seed: int) -> nn.Module:
        return Fit()(inputs, targets, seed)

    with pytest.warns(Note, match="fit gives no checkpoints"):
        check(tmp_path, fit=plain, tests=["class_detection"], explainers=["tracin"])
    held = Trainer(network=lambda shape, classes: nn.Linear(shape[0], classes), epochs=2, rate=0.1)
    with pytest.warns(Note, match="holds out 10%"):
        check(tmp_path / "held", fit=held, build=None, tests=["class_detection"], explainers=["representation_similarity"])


def test_self_influence_is_the_diagonal(case: Case) -> None:
    trained = case.trained(case.world)
    found = case.models.self_influence(case.world, trained, InfluenceFunctions(l2=0.02))
    x, y = blobs(N, 0)
    context = Context(Draws.of(0, torch.arange(N)), 7, training=Training(TensorInputs(x), y))
    explainer = InfluenceFunctions(l2=0.02)
    learnt = explainer.learn(trained.module, context)
    slow = [
        explainer.explain(trained.module, x[[n]], y[[n]], Context(context.draws[[n]], 7, training=context.training, learnt=learnt))[0, n]
        for n in range(N)
    ]
    np.testing.assert_allclose(found, torch.stack(slow).numpy(), rtol=1e-6)


def test_datamodelling_agrees_with_trainings_one_by_one(case: Case) -> None:
    test = LinearDatamodelling(subsets=50)
    found = prepared(test, case).measure(RepresentationSimilarity())
    (x, y), (inputs, targets) = blobs(N, 0), blobs(SAMPLES, 1)
    masks, fit, outputs = test.masks(case.world, 0), Fit(), []
    for mask, seed in zip(masks, test.training_seeds(0)[0], strict=True):
        assert mask.sum() == N // 2
        p = fit(x[mask], y[mask], seed)(inputs).double().softmax(1)[torch.arange(SAMPLES), targets]
        outputs.append((p / (1 - p)).log().detach())
    similar = (inputs @ x.T).double()  # the last layer's input is the input itself
    predicted = torch.stack([similar[:, mask].sum(1) for mask in masks], dim=1)
    slow = [
        pd.Series(a).corr(pd.Series(b), method="spearman")
        for a, b in zip(predicted.tolist(), torch.stack(outputs, 1).tolist(), strict=True)
    ]
    np.testing.assert_allclose(found.values, slow, atol=1e-6)


def test_wrong_labels_are_learnt_and_marked(case: Case) -> None:
    own = prepared(MislabelledSelf(share=0.25), case).measure(TracIn())
    harm = prepared(MislabelledHarm(share=0.25), case).measure(TracIn())
    assert len(own.values) == len(harm.values) == 12
    assert len(own.shared) == 36
    assert harm.values.mean() > 0.7


def test_harm_without_any_attribution_is_undefined(case: Case) -> None:
    class Nothing(SameClass):
        def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
            return torch.full((len(inputs), N), torch.nan)

    for test in (MislabelledHarm(), MislabelledSelf(), ClassDetection(), TailPatch(), ShortcutDetection(), ModelRandomisation()):
        found = prepared(test, case).measure(Nothing())
        assert np.isnan(found.values).all()
        assert np.isnan(found.interval().value)


def test_gains_can_be_over_labels_alone(whole: ExampleResult) -> None:
    over, plain = (one.table().set_index(["test", "explainer"]) for one in (whole.against("same_class"), whole))
    pd.testing.assert_series_equal(over["value"], plain["value"])
    both = plain.loc["class_detection"]["value"]
    assert over.loc[("class_detection", "tracin"), "gain"] == pytest.approx(both["tracin"] - both["same_class"])
    assert np.isnan(over.loc[("class_detection", "same_class"), "gain"])
    with pytest.raises(SpecError, match="Did you mean 'same_class'"):
        whole.against("same_clas")


def test_a_check_moves_to_a_device(tmp_path: Path) -> None:
    trainer = Trainer(network=lambda shape, classes: nn.Linear(shape[0], classes), epochs=3, rate=0.1, validation=0.0)
    given = ExampleCheck(**settings(fit=trainer, build=None, tests=["class_detection"]))
    moved = given.on("cpu")
    assert (moved.device, moved.fit.device, given.device) == ("cpu", "cpu", None)
    tables = [one.run(tmp_path / name, progress=False).table() for name, one in (("a", given), ("b", moved))]
    pd.testing.assert_frame_equal(*tables)


def test_an_empty_folder_has_an_empty_table() -> None:
    nothing = ExampleResult((), ())
    assert nothing.table().empty
    assert nothing.requirements().empty
    assert str(nothing) == ""


def test_checks_with_neighbouring_seeds_share_no_training_seed() -> None:
    test = LinearDatamodelling(subsets=60, seeds=2)
    drawn = [seed for check in range(4) for repeat in test.training_seeds(check) for seed in repeat]
    assert len(drawn) == len(set(drawn)) == 4 * 2 * 60
    assert all(0 <= seed < 2**31 for seed in drawn)
    assert test.training_seeds(3) == test.training_seeds(3)
    assert LinearDatamodelling(subsets=50).training_seeds(3)[0] == test.training_seeds(3)[0][:50]


def test_every_training_on_a_subset_gets_its_own_seed(case: Case) -> None:
    given: list[int] = []

    class Noted(Fit):
        def __call__(self, inputs: Tensor, targets: Tensor, seed: int, checkpoint: Keep | None = None) -> nn.Module:
            given.append(seed)
            return super().__call__(inputs, targets, seed, checkpoint)

    case.models.fit = Noted()
    test = LinearDatamodelling(subsets=50, seeds=2)
    prepared(test, case)
    assert given == [*test.training_seeds(0)[0], *test.training_seeds(0)[1], 0]


def test_merged_classes_are_all_that_the_model_knows(case: Case) -> None:
    test = SubclassDetection(groups=((0, 3), (1, 2)))
    assert test.merged(case.world).tolist() == [0, 1, 1, 0]
    assert SubclassDetection().merged(case.world).tolist() == [0, 0, 1, 1]
    found = prepared(test, case).measure(SameClass())
    assert [one.module.out_features for one in case.models.models.values()] == [2]
    assert 0.1 < found.values.mean() < 0.9  # labels alone know the group, not the class within it


def test_a_shortcut_is_planted_into_a_share_of_one_class(case: Case) -> None:
    def plant(values: Tensor) -> Tensor:
        return torch.cat((values[:, :-1], torch.full_like(values[:, :1], 9.0)), dim=1)

    found = prepared(ShortcutDetection(label=2, share=0.75, plant=plant), case).measure(TracIn())
    (key,) = case.models.models
    trained = case.models.models[key]
    inputs, targets = blobs(SAMPLES, 1)
    with_it, without = (trained.module(one).argmax(1) for one in (plant(inputs), inputs))
    fooled = (with_it == 2) & (without != 2) & (targets != 2)
    assert fooled.any()
    assert np.isnan(found.values).tolist() == (~fooled).tolist()
    labels = prepared(ShortcutDetection(label=2, share=0.75, plant=plant), case).measure(SameClass())
    assert np.nanmean(found.values) > 2 * 9 / 48  # nine of 48 examples have the shortcut
    assert np.isnan(labels.values).tolist() == np.isnan(found.values).tolist()


def test_samples_that_the_model_takes_for_the_label_anyway_are_not_fooled_by_the_shortcut(case: Case) -> None:
    """The first sample of another class is put where class 2 lies, so that no shortcut is needed to mistake it."""
    inputs, targets = (part.clone() for part in blobs(SAMPLES, 1))
    inputs[0] = 3 * CENTRES[2]
    case = replace(case, world=replace(case.world, inputs=TensorInputs(inputs)))

    def plant(values: Tensor) -> Tensor:
        return torch.cat((values[:, :-1], torch.full_like(values[:, :1], 9.0)), dim=1)

    found = prepared(ShortcutDetection(label=2, share=0.75, plant=plant), case).measure(SameClass())
    (trained,) = case.models.models.values()
    assert targets[0] != 2
    assert (trained.module(torch.stack((inputs[0], plant(inputs)[0]))).argmax(1) == 2).all()
    assert np.isnan(found.values[0])
    assert np.isfinite(found.values).any()


def test_a_shortcut_that_fools_no_sample_leaves_all_undefined_and_counted(tmp_path: Path) -> None:
    def weak(values: Tensor) -> Tensor:
        return values + 1e-6

    with pytest.warns(Note, match="plant a clearer one"):
        result = check(tmp_path, explainers=["representation_similarity"], tests=[ShortcutDetection(plant=weak)])
    assert result.failures().empty
    assert np.isnan(value(result, "shortcut_detection", "representation_similarity"))
    assert value(result, "shortcut_detection", "representation_similarity", "undefined") == SAMPLES
    assert value(result, "shortcut_detection", "representation_similarity", "n") == 0
    assert str(load(result.path)) == str(result)
    result.save_report(tmp_path / "report.html")


def test_a_tail_patch_is_a_step_of_gradient_descent(case: Case) -> None:
    trained = case.trained(case.world)
    attributions = torch.randn(SAMPLES, N, generator=torch.Generator().manual_seed(5)).double()
    attributions[3, 0] = torch.nan
    found = patched(case.models, case.world, trained.module, attributions, k=4, rate=0.3)
    (x, y), (inputs, targets) = blobs(N, 0), blobs(SAMPLES, 1)
    before = deepcopy(trained.module.state_dict())
    for sample in range(SAMPLES):
        copy = deepcopy(trained.module)
        optimiser = torch.optim.SGD(copy.parameters(), lr=0.3)
        best = sorted(range(N), key=lambda n, row=sample: -float(attributions[row, n]))[:4]
        nn.functional.cross_entropy(copy(x[best]), y[best]).backward()
        optimiser.step()
        change = margins(copy(inputs[[sample]]), targets[[sample]]) - margins(trained.module(inputs[[sample]]), targets[[sample]])
        assert np.isnan(found[sample]) if sample == 3 else found[sample] == pytest.approx(float(change.detach()), abs=1e-5)
    assert all(torch.equal(before[name], now) for name, now in trained.module.state_dict().items())
    assert all(one.grad is None for one in trained.module.parameters())


def test_random_weights_are_one_checkpoint_and_leave_the_model_alone(case: Case) -> None:
    trained = case.trained(case.world)
    before = deepcopy(trained.module.state_dict())
    randomised = case.models.randomised(trained)
    assert all(torch.equal(before[name], now) for name, now in trained.module.state_dict().items())
    assert not torch.equal(randomised.module.weight, trained.module.weight)
    assert torch.equal(randomised.checkpoints[0].state["weight"], randomised.module.weight)
    found = prepared(ModelRandomisation(), case).measure(TracIn())
    rows = [case.models.attributions(case.world, one, TracIn()) for one in (trained, randomised)]
    slow = [pd.Series(a).corr(pd.Series(b), method="spearman") for a, b in zip(*rows, strict=True)]
    np.testing.assert_allclose(found.values, slow)


@pytest.mark.parametrize("name", TESTS)
def test_every_test_follows_the_rules(name: str, case: Case) -> None:
    """One value per sample, in the bounds, the same at every call; no model changes; order and units of examples do not matter."""
    test = LinearDatamodelling(subsets=50) if name == "linear_datamodelling" else TESTS[name]()
    test.check(case.world, 0)
    measure = prepared(test, case).measure
    states = {key: deepcopy(one.module.state_dict()) for key, one in case.models.models.items()}
    for explainer in (InfluenceFunctions(l2=0.02), RepresentationSimilarity(), SameClass()):
        found, again = measure(explainer), measure(explainer)
        assert len(found.values) == (round(0.1 * N) if name.startswith("mislabelled") else SAMPLES)
        np.testing.assert_array_equal(found.values, again.values)
        known = found.values[np.isfinite(found.values)]
        assert len(known)
        assert test.bounds[0] <= known.min() <= known.max() <= test.bounds[1]
    for key, one in case.models.models.items():
        assert all(torch.equal(states[key][part], now) for part, now in one.module.state_dict().items())
        assert not one.module.training
    assert type(test).title
    assert type(test).definition.endswith(".")
    assert type(test).reference
    assert test.spec()["name"] == name


BAD = {
    "no training data": ({"training": None}, "needs the examples that models are trained on: pass training=(inputs, labels)"),
    "no labels": ({"targets": None}, "explains each sample for its label: pass targets="),
    "no training labels": ({"training": (blobs(N, 0)[0], None)}, "needs labels: pass training=(inputs, labels)"),
    "one class": ({"training": (blobs(N, 0)[0], torch.zeros(N, dtype=torch.long))}, "at least two of them"),
    "unknown class": ({"targets": torch.full((SAMPLES,), 7)}, "has 4 classes"),
    "other shape": ({"inputs": torch.zeros(SAMPLES, 3)}, "give both in one shape"),
    "one sample": ({"inputs": blobs(1, 1)[0], "targets": blobs(1, 1)[1]}, "at least 2 explained samples"),
    "few subsets": ({"tests": [{"name": "linear_datamodelling", "subsets": 49}]}, "of at least 50"),
    "lost class": ({"tests": [{"name": "linear_datamodelling", "subsets": 50, "share": 0.05}]}, "lack a class"),
    "large k": ({"tests": [TailPatch(k=N + 1)]}, "there are 48 training examples: lower k"),
    "few wrong labels": ({"tests": [MislabelledSelf(share=0.01)]}, "fewer than two wrong labels"),
    "no group": ({"tests": [SubclassDetection(groups=((0, 1), (2,)))]}, "each of the 4 classes once"),
    "no class": ({"tests": [ShortcutDetection(label=4)]}, "the classes go from 0 to 3"),
    "no shortcut": ({"tests": [ShortcutDetection(plant=lambda values: values)]}, "must change the examples"),
    "unknown test": ({"tests": ["tail_pach"]}, "Did you mean 'tail_patch'"),
    "one name": ({"tests": "tail_patch"}, "such as ['tail_patch'], not one name"),
    "no tests": ({"tests": []}, "at least one of"),
    "twice": ({"tests": ["tail_patch", TailPatch(k=2)]}, "given twice"),
    "maps": ({"explainers": ["gradient"]}, "does not explain by training examples"),
    "a network": ({"fit": nn.Linear(FEATURES, CLASSES)}, "not a network"),
    "no fit": ({"fit": None}, "needs fit="),
    "outputs": ({"outputs": "raw"}, "'outputs'"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_sentence_before_anything_is_trained(name: str, tmp_path: Path) -> None:
    fit = Fit()
    changed, said = BAD[name]
    with pytest.raises(VeracityError) as caught:
        check(tmp_path, **{"fit": fit, **changed})
    text = str(caught.value)
    assert said in text
    assert text.endswith((".", "?"))
    assert "\n" not in text
    assert fit.calls == 0


@pytest.mark.parametrize(
    ("fit", "said"),
    [
        (lambda x, y, seed: 3, "must return a torch.nn.Module, not int"),
        (lambda x, y, seed: 1 / 0, "fit failed on 48 training examples with ZeroDivisionError"),
        (lambda x, y, seed: nn.Linear(FEATURES, 2), "not one for each of the 4 classes"),
    ],
)
def test_a_fit_that_fails_ends_the_run(fit: Callable[..., object], said: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="fit") as caught:
        check(tmp_path, fit=fit, tests=["class_detection"])
    assert said in str(caught.value)


def test_what_cannot_be_measured_is_recorded_and_the_rest_counts(tmp_path: Path) -> None:
    class Picky(Fit):
        def __call__(self, inputs: Tensor, targets: Tensor, seed: int, checkpoint: Keep | None = None) -> nn.Module:
            if int(targets.max()) + 1 < CLASSES:
                raise ValueError("too few classes")
            return super().__call__(inputs, targets, seed, checkpoint)

    explainers = {"good": "representation_similarity", "bad": InfluenceFunctions(layer="nowhere")}
    result = check(tmp_path, fit=Picky(), explainers=explainers, tests=["class_detection", "subclass_detection"])
    lost = result.failures().set_index(["test", "explainer"])["error"]
    assert "nowhere" in lost["class_detection", "bad"]
    assert ("class_detection", "good") not in lost
    assert "too few classes" in lost["subclass_detection", "good"]
    assert np.isnan(value(result, "subclass_detection", "good"))
    assert "failed for" in str(result)
    assert str(load(result.path)) == str(result)


def test_probabilities_give_the_same_numbers_as_logits(tmp_path: Path) -> None:
    class Probable(Fit):
        def __call__(self, *given: object, **more: object) -> nn.Module:
            return nn.Sequential(super().__call__(*given), nn.Softmax(1)).eval()

    tests, explainers = ["tail_patch", "mislabelled_harm"], {"influence": InfluenceFunctions(l2=0.02)}
    logits = check(tmp_path / "a", tests=tests, explainers=explainers).table()
    same = check(tmp_path / "b", tests=tests, explainers=explainers, fit=Probable(), outputs="probabilities", build=None).table()
    np.testing.assert_allclose(logits["value"], same["value"], rtol=1e-3, atol=1e-5)


def test_checkpoints_are_spread_over_the_training(case: Case) -> None:
    states = case.trained(case.world).checkpoints
    assert [one.rate for one in states] == [0.8] * 3
    assert isinstance(states[0], Checkpoint)
    few = Case(Retraining(Fit(), case.models.store, 0, kept=1), case.world, 0, True).trained(case.world).checkpoints
    assert len(few) == 1
    assert torch.equal(few[0].state["weight"], states[-1].state["weight"])


def test_classes_are_found_by_similar_examples(case: Case) -> None:
    found = prepared(ClassDetection(), case).measure(RepresentationSimilarity())
    (x, y), (inputs, targets) = blobs(N, 0), blobs(SAMPLES, 1)
    assert found.values.tolist() == (y[(inputs @ x.T).argmax(1)] == targets).double().tolist()
