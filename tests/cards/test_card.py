"""Cards with known answers: what holds by construction holds, and planted failures are named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import veracity
from linear_cards import contributions, known_card, labelled, linear_model, samples, switched, weights_of
from small import series_inputs, small_net
from veracity import Card, CardStudy, CrossTrained
from veracity.cards import page, plan
from veracity.cards.questions import QUESTIONS
from veracity.cards.record import CardRecord
from veracity.cards.runs import Runs
from veracity.cards.trust import meta_verdicts
from veracity.core.errors import InputError, SpecError, StoreError
from veracity.studies.meta import MetaEvaluation
from veracity.studies.result import load

pytestmark = pytest.mark.filterwarnings("ignore::veracity.core.errors.Note")
HERE = {"budget": "1s", "progress": False}
"""Too little for a search."""


def words(card: Card, explainer: str) -> list[str]:
    return [card.word(one.key, explainer) for one in QUESTIONS]


def test_exact_contributions_hold(known: Card) -> None:
    assert words(known, "exact")[:3] == ["holds"] * 3


@pytest.mark.parametrize("wrong", ["random", "edges", "summed"])
def test_what_does_not_depend_on_the_model_is_out(known: Card, wrong: str) -> None:
    assert known.word("model", wrong) == "falls short"
    assert known.explainers[wrong].out
    assert wrong not in known.undominated


def test_the_sum_of_logits_is_named_for_its_classes(known: Card) -> None:
    said = known.answer("model", "summed")
    assert {check.check: check.word for check in said.checks} == {"weights": "holds", "class": "falls short"}
    assert "for another class" in said.sentence.lower()


def test_noise_is_named_and_dominated(known: Card) -> None:
    assert not known.explainers["noisy"].out
    assert known.word("calm", "noisy") == "falls short"
    assert known.undominated == ["exact"]
    assert known.explainers["noisy"].dominated_by == {"exact": 1.0}
    own = {check.check: check.value for check in known.answer("faithful", "noisy").checks}
    best = {check.check: check.value for check in known.answer("faithful", "exact").checks}
    assert all(own[key] is None or best[key] is None or own[key] <= best[key] + known.record.margin for key in best)  # type: ignore[operator]


def test_the_rule_is_applied_to_the_controls(known: Card) -> None:
    controls = [one for one in known.record.explainers if one.control]
    assert {one.name for one in controls if one.out} >= {"random_gaussian", "constant_map"}
    assert "edge_filter" not in {one.name for one in controls}  # the columns of a table have no neighbours
    assert not any(one.answers[0].word == "holds" for one in controls)  # after 64 samples, one of them is open
    assert not {one.name for one in controls} & set(known.explainers)


def test_numbers_stand_behind_the_words(known: Card) -> None:
    """The value of deletion, computed from the run itself."""
    run = load(Path(known.path) / "maps")
    table = run.table().set_index(["explainer", "score"])["value"]
    control = table["random_gaussian", "deletion"]
    check = next(one for one in known.answer("faithful", "exact").checks if one.check == "deletion")
    assert check.value == pytest.approx((control - table["exact", "deletion"]) / control)
    assert check.raw == pytest.approx(table["exact", "deletion"])
    assert known.record.level == pytest.approx(1 - 0.005 / known.record.comparisons)  # a look has a tenth of alpha


def test_a_claim_that_names_no_explainer(known: Card) -> None:
    with pytest.raises(SpecError, match=r"name it, as in card.holds\('faithful', explainer='exact'\)"):
        known.holds("faithful")
    with pytest.raises(SpecError, match="A question is asked by its name, not as 1: question 1 is called 'faithful'"):
        known.holds(1)  # type: ignore[arg-type]


def test_uses(known: Card) -> None:
    debugging, case, evidence = known.record.uses
    assert "exact" in debugging.fit
    assert set(case.unfit) >= {"noisy", "random"}
    assert evidence.fit == []  # question 5 is open


def test_open_questions_say_what_to_do(known: Card) -> None:
    assert known.word("training", "exact") == "cannot tell yet"
    assert "trainer" in known.answer("training", "exact").sentence
    assert "which this budget does not allow; a budget of" in known.answer("robust", "exact").sentence
    assert known.word("symmetric", "exact") == "does not apply"


def test_a_folder_is_read_again_and_the_same_call_finds_the_same(known: Card, folder: Path) -> None:
    assert load(folder).record == known.record
    content = json.loads((folder / "card.json").read_text())
    assert CardRecord.model_validate(content) == known.record
    before = {path: path.stat().st_mtime_ns for path in (folder / "maps").rglob("*.parquet")}
    assert known_card(folder).record == known.record
    assert {path: path.stat().st_mtime_ns for path in (folder / "maps").rglob("*.parquet")} == before


def fit(inputs: Tensor, targets: Tensor, seed: int) -> nn.Module:
    """A linear model near the true one, which depends a little on the data."""
    model, generator = linear_model(), torch.Generator().manual_seed(int(1000 * inputs.abs().sum()))
    with torch.no_grad():
        model.weight.add_(0.05 * torch.randn(model.weight.shape, generator=generator))
    return model


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Card:
    x, y = labelled(40)
    given = {"exact": contributions, "switched": switched}
    trainer = CrossTrained(fit=fit, folds=3, build=linear_model)
    where = tmp_path_factory.mktemp("card") / "run"
    return veracity.card(linear_model(), x, y, explainers=given, trainer=trainer, budget="10m", samples=24, folder=where, progress=False)


def test_an_adversarial_switch_is_found(searched: Card) -> None:
    assert searched.word("robust", "switched") == "falls short"
    assert "An example was found near" in searched.answer("robust", "switched").sentence
    assert searched.word("robust", "exact") == "holds"
    assert "evaluations, and for half of the samples at most 1 random point in 13,000 is one" in searched.answer("robust", "exact").sentence


def test_another_training_gives_the_same_reasons(searched: Card) -> None:
    checks = {one.check: one for one in searched.answer("training", "exact").checks}
    assert checks["mege"].word == "holds"
    assert checks["reco"].word == "does not apply"  # the models hardly disagree
    assert searched.word("training", "exact") == "holds"
    assert checks["mege"].value is not None
    assert checks["mege"].value > 0.5


def placed(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    """A gradient that is weighted by the place of a value, so that it does not move along with its input."""
    x = inputs.detach().requires_grad_()
    with torch.enable_grad():
        (slope,) = torch.autograd.grad(model(x).gather(1, targets[:, None]).sum(), x)
    return slope * torch.linspace(0.2, 2.0, inputs.shape[-1])


def test_a_symmetry_that_the_model_keeps_is_asked() -> None:
    count = 16
    net, x = small_net(), series_inputs(count)
    named = {"gradient": "gradient", "placed": placed}
    card = veracity.card(net, x, net(x).argmax(1), explainers=named, samples=count, advise=True, **HERE)
    assert card.word("symmetric", "gradient") == "holds"
    assert card.word("symmetric", "placed") == "falls short"
    assert any("shift" in one.lower() for one in card.record.symmetries)
    assert card.record.advice
    (step, *_) = card.record.advice
    assert (step.explainer, step.gain is not None and step.gain > 0) == ("placed", True)
    assert f"Change: {step.change.rstrip('.')}. Measured: " in str(card)
    asked = page.html(card.record.model_copy(update={"advice": None}))
    assert "placed may be changed so that it follows. To see how, and what that gains: veracity card FILE --advise" in asked


def test_what_meta_evaluation_says_of_a_score(tmp_path: Path) -> None:
    net, explainers = linear_model(), ["gradient", "input_x_gradient"]
    settings: dict[str, Any] = {"tests": ["mpt"], "iterations": 2, "perturbations": 1, "scores": ["deletion"]}
    MetaEvaluation(model=net, inputs=samples(6), explainers=explainers, **settings).run(tmp_path / "meta", progress=False)
    base = load(tmp_path / "meta" / "base").manifest["models"]["model"]["fingerprint"]
    ((found,), notes) = meta_verdicts(tmp_path, base)
    assert (found.score, found.test, found.iterations, notes) == ("deletion", "mpt", 2, [])
    assert meta_verdicts(tmp_path, "other")[1] == ["The meta-evaluation in the folder meta is about another model, so it is not shown."]


def test_an_interrupted_card_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_parts: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Runs, "kept_symmetries", interrupted)
        with pytest.raises(KeyboardInterrupt):
            small_card(folder=tmp_path / "run")
    with pytest.raises(StoreError, match="has no results yet"):
        load(tmp_path / "run")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "run" / "maps").rglob("*.parquet")}
    assert before
    card = small_card(folder=tmp_path / "run")
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "run" / "maps").rglob("*.parquet")} == before
    assert load(tmp_path / "run").record == card.record
    more = small_card(folder=tmp_path / "run", samples=16)
    assert (card.record.samples, more.record.samples) == (12, 16)
    first, second = (one.answer("calm", "exact").checks[1].n for one in (card, more))
    assert (first, second) == (12, 16)


# --- bad input


def small_card(**settings: object) -> Card:
    x, y = labelled(16)
    given = {"explainers": {"exact": contributions}, "samples": 12, **HERE, **settings}
    return veracity.card(linear_model(), x, given.pop("targets", y), **given)  # type: ignore[arg-type]


def test_one_explainer_and_a_model_at_chance() -> None:
    _, y = labelled(16)
    card = small_card(targets=(y + 1) % 4)
    assert "There is one explainer, exact, so nothing is compared." in str(card)
    assert any("not show that it is better than chance" in note for note in card.record.notes)
    assert card.path == ""


def test_equal_explainers_are_said_to_be_equal() -> None:
    card = small_card(explainers={"one": contributions, "two": contributions})
    assert any("same numbers on every check" in note and "one and two" in note for note in card.record.notes)
    assert set(card.undominated) == {"one", "two"}


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"budget": "soon"}, "A budget is a time such as '90s'"),
        ({"budget": 0}, "A budget is a time such as '90s'"),
        ({"samples": None, "budget": 1e-6}, "is too small: 16 samples of 1 explainer take about"),
        ({"explainers": []}, "There is no explainer to make a card of"),
        ({"explainers": ["random_gaussian"]}, "There is no explainer to make a card of"),
        ({"explainers": ["gradeint"]}, "Unknown explainer 'gradeint'"),
        ({"trainer": [linear_model()]}, "pass trainer=CrossTrained"),
        ({"trainer": 3}, "A trainer is a function"),
        ({"trainer": lambda inputs, targets: linear_model()}, "and this one takes (inputs, targets)"),
        ({"trainer": "erm_"}, "Unknown trainer 'erm_'"),
        ({"trainer": fit, "targets": None}, "needs the targets"),
        ({"samples": 0}, "samples"),
        ({"folder": "s3://bucket/card"}, "into a folder on a disk, not into s3://bucket/card"),
    ],
)
def test_mistakes_are_one_sentence(settings: dict[str, object], sentence: str) -> None:
    with pytest.raises((InputError, SpecError)) as caught:
        small_card(**settings)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_no_explainer_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "refusal", lambda few, explainers, scores: "It takes no inputs like these.")
    with pytest.raises(InputError, match="No built-in explainer fits this model and its inputs: It takes no inputs like these"):
        small_card(explainers="auto")


def test_too_few_samples_and_too_many_models() -> None:
    with pytest.raises(InputError, match="at least 8 samples"):
        veracity.card(linear_model(), samples(5), explainers=["gradient"])
    with pytest.raises(SpecError, match="Unknown setting of a card 'unit'"):
        veracity.card(linear_model(), samples(9), explainers=["gradient"], unit=[0] * 9)
    audit = veracity.Audit(models={"a": linear_model(), "b": linear_model()}, inputs=samples(9), explainers=["gradient"])
    with pytest.raises(InputError, match="one model, not 2"):
        CardStudy(audit=audit)
    with pytest.raises(InputError, match="pass it as trainer"):
        CardStudy(audit=veracity.Audit(models={"a": CrossTrained(fit=fit)}, inputs=samples(9), explainers=["gradient"]))


def test_names_are_checked(known: Card) -> None:
    with pytest.raises(SpecError, match="Unknown question of a card 'faithfull'"):
        known.word("faithfull", "exact")
    with pytest.raises(SpecError, match="Unknown explainer of this card"):
        known.holds("faithful", "lime")


def test_the_budget_buys_samples_and_drops_what_is_too_expensive() -> None:
    costs = {"cheap": 10, "dear": 1000}
    assert plan.affordable(costs, 1010 * 64, 500, None, True, 1.0, 1.0) == (64, {})
    count, costly = plan.affordable(costs, 1010 * 31, 500, None, True, 1.0, 1000.0)
    assert count == 500
    assert costly == {"dear": "it does not fit into the budget beside the others, and takes about 32 s"}
    assert plan.affordable(costs, 1010 * 99, 500, 100, True, 1.0, 1.0)[0] == 100
    assert list(plan.affordable(costs, 1010 * 99, 500, 100, True, 1.0, 1.0)[1]) == ["dear"]
    assert plan.affordable(costs, 1.0, 500, 100, False, 1.0, 1.0) == (100, {})
    with pytest.raises(InputError, match="is too small"):
        plan.affordable(costs, 1010 * 15, 500, None, False, 1.0, 1.0)


def test_a_larger_budget_never_takes_fewer_samples_nor_loses_the_search() -> None:
    x, y = samples(1100), torch.zeros(1100, dtype=torch.long)
    audit = veracity.Audit(models=linear_model(), inputs=x, targets=y, explainers=["gradient"])
    found = [plan.plan(audit, seconds) for seconds in (0.7 * 1.3**step for step in range(28))]
    taken = [(len(one.rows), one.searches) for one in found]
    assert taken == sorted(taken)
    assert {(64, False), (256, False), (256, True), (1024, True)} <= set(taken)
    first = next(one for one in found if len(one.rows) == 256)
    assert plan.plan(audit, first.seconds + first.seconds_to_search).searches


def test_noise_of_a_table_does_not_follow_its_widest_column() -> None:
    wide = samples(64) * torch.tensor([1000.0] * 4 + [1.0] * 12)
    audit = veracity.Audit(models=linear_model(), inputs=wide, explainers=["gradient"])
    assert 0.5 < plan.scale_of(audit, torch.arange(64)) < 2.0


def test_a_regression_with_negative_whole_targets_has_no_majority(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(16, 1))
    found = veracity.card(net, samples(16), torch.arange(-8, 8), explainers=["gradient"], folder=tmp_path, samples=16, **HERE)
    assert found.record.majority is None


def test_weights_of_finds_the_layer() -> None:
    assert weights_of(linear_model()).shape == (4, 16)
