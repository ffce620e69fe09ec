"""LLM-x: prompts by hand, ranks and answers of language models whose preferences are known, and whole audits."""

from __future__ import annotations

import json
import pickle
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
import torch

from language_models import Preferring, Writing, llm_tokenizer, tiny_llama
from text_models import text_model, tokenizer
from veracity import Audit
from veracity.core.errors import InputError, SpecError, VeracityError
from veracity.core.explainers import Context
from veracity.core.inputs import SelectedSamples
from veracity.core.randomness import Draws
from veracity.core.targets import Outputs
from veracity.engine.perturbation.weights import WeightPerturbation
from veracity.explain import LanguageModelExplainer, Symmetrised, TopK, as_explainer
from veracity.explain.llm_x import FORM, change, kept, parse
from veracity.inputs import TextInputs
from veracity.perturb import TokenPermutations
from veracity.scores import FastGEF

pytest.importorskip("transformers")

TEXTS = ["a fine film", "a dull film with no heart at all", "not a finely film, a dull film"]


def explainer(model: Any = None, **settings: Any) -> LanguageModelExplainer:
    return LanguageModelExplainer(model=model or tiny_llama(), tokenizer=llm_tokenizer(), **settings)


def explained(one: LanguageModelExplainer, texts: Any = TEXTS, original: Any = None, **settings: Any) -> torch.Tensor:
    inputs = TextInputs(texts, tokenizer(), **settings)
    x, view = inputs.take(torch.arange(len(texts))), inputs.adapt(text_model())
    context = Context(Draws.of(0, torch.arange(len(texts))), 2, x.structure, present=x.present, original=original, inputs=inputs)
    targets = torch.zeros(len(texts), dtype=torch.long)
    one.check(view, x.values, targets, context)
    return one.explain(view, x.values, targets, context)


def test_a_prompt_by_hand() -> None:
    one = explainer(task="judge films", classes=("bad", "good"), k=3)
    assert one.asked("a fine film", "good", ["bad", "good"], 0.971, 0.6) == (
        "A classifier has this task: judge films. Its classes are: bad, good.\n"
        'Text: "a fine film"\n'
        'The classifier gave the class "good" a probability of 0.971. Then its weights were perturbed with noise: it is less confident '
        "by 0.371.\n"
        "Rank the 3 words of the text that matter most for the class, the most important word first.\n"
        'Answer with JSON only, in this form: {"words": ["first word", "second word"]}'
    )


@pytest.mark.parametrize(
    ("p0", "p1", "words"),
    [
        (0.9, 0.4, "it is less confident by 0.50"),
        (0.4, 0.9, "it is more confident by 0.50"),
        (0.0, 1.0, "it is more confident by 1.00"),
        (0.5, 0.5, "it is as confident as before"),
        (0.5, 0.5001, "it is as confident as before"),
    ],
)
def test_more_and_less_follow_the_sign_of_the_change(p0: float, p1: float, words: str) -> None:
    assert change(p0, p1, 2) == words


def test_the_prompt_has_the_probabilities_of_both_models(monkeypatch: pytest.MonkeyPatch) -> None:
    """p0 comes from the unperturbed model, p1 from the explained one; without a perturbation they are the same."""
    one, seen = explainer(), []
    monkeypatch.setattr(LanguageModelExplainer, "answers", lambda self, prompts, words, context: seen.extend(prompts) or [
        {"likelihoods": [0.0] * len(own)} for own in words
    ])  # fmt: skip
    inputs = TextInputs(TEXTS, tokenizer())
    x = inputs.take(torch.arange(3))
    with torch.no_grad():
        own = x.through(inputs.adapt(text_model())).softmax(1)[:, 0].tolist()
    explained(one)
    original = torch.tensor([[2.0, 0.0], [0.0, 0.0], [-1.0, 1.0]])
    explained(one, original=original)
    before = original.softmax(1)[:, 0].tolist()
    for row in range(3):
        assert f"a probability of {own[row]:.3f}." in seen[row]
        assert "it is as confident as before" in seen[row]
        assert f"a probability of {before[row]:.3f}." in seen[3 + row]
        assert change(before[row], own[row], 3) in seen[3 + row]
        assert ("more" if own[row] > before[row] else "less") in change(before[row], own[row], 3)


def test_the_words_that_a_model_prefers_are_marked_on_the_classifiers_tokens() -> None:
    """The classifier's tokens are a, fine, ##ly, film, ',': a word marks all of its tokens, and every place where it stands."""
    liking = Preferring({"dull": 9.0, "fine": 8.0, "##ly": 8.0, "film": 7.0})
    found = explained(explainer(liking, k=2))
    assert found[0].tolist() == [0, 1, 1, *[0] * (found.shape[1] - 3)]  # fine, film
    words = TextInputs(TEXTS, tokenizer()).words(2)
    assert words == ["not", "a", "fine", "##ly", "film", "[UNK]", "a", "dull", "film"]
    assert found[2].tolist()[:9] == [0, 0, 0, 0, 1, 0, 0, 1, 1]  # dull, film: finely has two tokens, so it is less likely than film
    assert explained(explainer(liking, k=3))[2].tolist()[:9] == [0, 0, 1, 1, 1, 0, 0, 1, 1]


def test_texts_with_the_same_tokens_are_asked_about_each_in_its_own_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unknown words have one token, and texts may be cut at the same place; also if the audit has some of the texts only."""
    seen: list[str] = []
    monkeypatch.setattr(LanguageModelExplainer, "asked", lambda self, text, *_: seen.append(text) or text)
    texts = ["a superb film", "a horrid film", "a fine film"]
    one, inputs = explainer(), TextInputs(texts, tokenizer())
    for given, rows in ((inputs, [1, 2, 0]), (SelectedSamples(inputs, torch.tensor([2, 1])), [1, 0])):
        x = given.take(torch.tensor(rows))
        context = Context(Draws.of(0, torch.tensor(rows)), 4, x.structure, present=x.present, inputs=given)
        seen.clear()
        one.explain(inputs.adapt(text_model()), x.values, torch.zeros(len(rows), dtype=torch.long), context)
        assert seen == ([texts[1], texts[2], texts[0]] if given is inputs else [texts[1], texts[2]])


def test_ties_go_by_the_order_of_the_text() -> None:
    found = explained(explainer(Preferring({}), k=2), ["dull fine film", "film dull fine"])
    assert found.tolist() == [[1, 1, 0], [1, 1, 0]]


def test_soft_explanations_are_log_likelihoods() -> None:
    liking = Preferring({"dull": 2.0, "film": 1.0})
    total = torch.logsumexp(liking.scores.detach().double(), 0)
    found = explained(explainer(liking, soft=True), ["a dull, film"])
    expected = [0.0 - total, 2.0 - total, 0.0 - total, 1.0 - total]  # the comma gets the lowest
    assert found[0].tolist() == pytest.approx([float(value) for value in expected], abs=1e-4)
    assert explainer(soft=True).signed
    assert not explainer().signed


@pytest.mark.parametrize("mode", ["rank", "generate"])
@pytest.mark.parametrize("packs", [True, False])
def test_numbers_do_not_depend_on_the_batch(mode: str, packs: bool) -> None:
    found = []
    for batch in (1, 2, 16):
        one = explainer(mode=mode, soft=mode == "rank", length=4, batch=batch)
        one.llm.__dict__["packs"] = packs
        found.append(explained(one))
    for other in found[1:]:
        torch.testing.assert_close(other, found[0], atol=2e-4, rtol=1e-4, equal_nan=True)


def test_words_whose_gates_are_closed_are_not_in_the_text() -> None:
    text, words = TextInputs(["a finely film"], tokenizer()).spelt(0)
    assert [(word.text, word.units) for word in words] == [("a", (0,)), ("finely", (1, 2)), ("film", (3,))]
    left, rest = kept(text, words, torch.tensor([1.0, 0.0, 0.0, 0.5]))
    assert (left, [word.text for word in rest]) == ("a film", ["a", "film"])
    assert kept(text, words, torch.tensor([1.0, 0.0, 1.0, 1.0]))[0] == "a finely film"


def test_units_of_words_and_tokens_without_texts() -> None:
    assert explained(explainer(Preferring({"film": 5.0}), k=1), unit="word")[2].tolist()[:7] == [0, 0, 0, 1, 0, 0, 0]
    coded = TextInputs.of_encoding(tokenizer()(["a fine film"], return_tensors="pt"), tokenizer())
    assert [word.text for word in coded.spelt(0)[1]] == ["a", "fine", "film"]


WORDS = ["a", "Fine", "film", "o'clock"]


@pytest.mark.parametrize(
    ("text", "words", "problem"),
    [
        ('{"words": ["fine", "film"]}', ("fine", "film"), ""),
        ('Sure! Here: {"words": ["Film", "fine."]} I hope this helps.', ("film", "fine"), ""),
        ('["film", "film", "a"]', ("film", "a"), ""),
        ('{"2": "a", "1": "film"}', ("film", "a"), ""),
        ('{"words": ["o\'clock"]}', ("o'clock",), ""),
        (FORM, (), "echo"),
        ('{"words": ["film", "Second word"]}', (), "echo"),
        ('The words are "first word" and "second word".', (), "echo"),
        ('{"words": ["film", "great"]}', (), "foreign"),
        ('{"words": ["fine film"]}', (), "foreign"),
        ('{"words": ["film", "fine"', (), "unparsable"),
        ("{'words': ['film']}", (), "unparsable"),
        ('{"words": "film"}', (), "unparsable"),
        ('{"words": [1, 2]}', (), "unparsable"),
        ('{"words": []}', (), "unparsable"),
        ("film, fine", (), "unparsable"),
        ("__import__('os').abort()", (), "unparsable"),
        ("[" * 100000, (), "unparsable"),
        ("", (), "unparsable"),
    ],
)
def test_answers_are_read_as_json_only(text: str, words: tuple[str, ...], problem: str) -> None:
    assert parse(text, WORDS) == (words, problem)


def writing(monkeypatch: pytest.MonkeyPatch, *answers: str) -> Writing:
    """A language model that gives these answers in turn."""
    turns = iter(answers * 1000)
    tokens = llm_tokenizer()
    monkeypatch.setattr(type(tokens), "decode", lambda self, ids, **settings: next(turns) if ids == [0] else "")
    return Writing({})


def test_written_answers_mark_words_or_are_undefined(monkeypatch: pytest.MonkeyPatch) -> None:
    model = writing(monkeypatch, '["Film", "dull"]', FORM, '["film"]')
    # longest prompts are asked first
    found = explained(explainer(model, mode="generate", k=2))
    assert found.isnan().all(1).sum() == 1
    assert set(found[~found.isnan().any(1)].flatten().tolist()) == {0.0, 1.0}


def audit(one: Any, texts: Any = TEXTS, **settings: Any) -> Audit:
    score = FastGEF(steps=3, draws=2, sigma=0.3)
    given: dict[str, Any] = {"models": {"net": text_model()}, "inputs": TextInputs(texts, tokenizer()), "explainers": {"llm": one}}
    return Audit(**{**given, "scores": [score], "controls": False, "companions": False, **settings})


def test_a_model_that_always_answers_the_same_gives_no_response(tmp_path) -> None:
    result = audit(explainer(Preferring({"film": 3.0}), k=1)).run(tmp_path, progress=False)
    table = result.table()
    assert table["no_response"].tolist() == [3]
    assert table["no_response_draws"].tolist() == [3 * 2]
    assert table["undefined"].tolist() == [3]
    assert table["value"].isna().all()
    assert "no_response" in str(result)
    assert "no response" in result.save_report(tmp_path / "report.html").read_text()


class Following(Preferring):
    """Prefers 'film' if the prompt says less, else the first word; so it follows the change of confidence."""

    def forward(self, input_ids, attention_mask=None):
        found = super().forward(input_ids, attention_mask)
        numbers = llm_tokenizer().get_vocab()
        less = (input_ids == numbers["less"]).any(1)
        scores = found.logits.clone()
        scores[..., numbers["film"]] += torch.where(less, 5.0, 0.0)[:, None]
        found.logits = scores
        return found


def test_an_audit_hands_on_the_scores_of_the_unperturbed_model(tmp_path) -> None:
    result = audit(explainer(Following({}), k=1)).run(tmp_path, progress=False)
    prompts = [one["prompt"] for one in stored(tmp_path).values()]
    net = text_model()
    inputs = TextInputs(TEXTS, tokenizer())
    with torch.no_grad():
        chances = inputs.take(torch.arange(3)).through(inputs.adapt(net)).softmax(1).amax(1).tolist()
    for chance in chances:  # the predicted class is explained, and p0 is the same at all levels
        about = [prompt for prompt in prompts if f"a probability of {chance:.3f}." in prompt]
        assert len(about) > 1
        assert sum("as confident as before" in prompt for prompt in about) == 1
    assert len(prompts) == sum(any(f"a probability of {chance:.3f}." in prompt for chance in chances) for prompt in prompts)
    assert result.table()["no_response"].tolist()[0] < 3


def test_the_unperturbed_model_scores_each_text_once_for_all_copies(tmp_path) -> None:
    """Besides, it scores them for the targets, in trials, and for their own explanation."""
    rows = []
    for draws in (1, 4):
        net, seen = text_model(draws), list[int]()  # another model, since outputs are kept by the model
        net.register_forward_hook(lambda module, *_, net=net, seen=seen: seen.append(1) if module is net else None)
        audit(explainer(Preferring({})), models={"net": net}, scores=[FastGEF(steps=3, draws=draws, sigma=0.3)]).run(
            tmp_path / str(draws), progress=False
        )
        rows.append(len(seen))
    assert rows[0] == rows[1]


@pytest.mark.parametrize("mode", ["rank", "generate"])
@pytest.mark.parametrize("wrapped", [False, True])
def test_copies_are_asked_about_together_as_one_by_one(tmp_path, monkeypatch: pytest.MonkeyPatch, mode: Any, wrapped: bool) -> None:
    """Six copies and three texts: the same answers and scores, in fewer calls of the language model, and no question twice."""

    def run(name: str) -> tuple[pd.DataFrame, Any, list[int]]:
        llm = writing(monkeypatch, '["film"]', '["a"]') if mode == "generate" else Following({})
        one = explainer(llm, k=1, mode=mode, batch=64)
        result = audit(TopK(explainer=one, k=2) if wrapped else one).run(tmp_path / name, progress=False)
        return result.table(), stored(tmp_path / name), llm.rows

    together = run("together")
    with monkeypatch.context() as patch:
        patch.setattr(WeightPerturbation, "inquired", lambda *_: {})
        apart = run("apart")
    if mode == "rank":
        pd.testing.assert_frame_equal(together[0], apart[0])
        assert together[1] == apart[1]
    else:  # what this one writes depends on the order
        assert {one["prompt"] for one in together[1].values()} == {one["prompt"] for one in apart[1].values()}
    assert len(together[2]) < len(apart[2])
    assert sum(together[2]) <= sum(apart[2])


def test_inquiries_are_settled_in_their_order() -> None:
    """Two inquiries with other texts and widths give the explanations that each gives alone."""
    one, found, alone = explainer(Following({}), k=1), [], []
    for texts in (TEXTS, TEXTS[1:2]):
        inputs = TextInputs(texts, tokenizer())
        x, view = inputs.take(torch.arange(len(texts))), inputs.adapt(text_model())
        context = Context(Draws.of(0, torch.arange(len(texts))), 2, x.structure, present=x.present, inputs=inputs)
        given = (view, x.values, torch.zeros(len(texts), dtype=torch.long), context)
        found.append(one.inquiry(*given))
        alone.append(one.explain(*given))
    assert all(torch.equal(a, b) for a, b in zip(one.settle(found), alone, strict=True))
    assert [tuple(a.shape) for a in alone] == [tuple(a.gates.shape) for a in found]


@dataclass(frozen=True, kw_only=True)
class Still(TokenPermutations):
    """Two transforms that leave the words where they are."""

    name = "still"

    @property
    def order(self) -> int:
        return 2

    def decode(self, latent: torch.Tensor) -> torch.Tensor:
        return self.identity(len(latent))

    def unrank(self, index: torch.Tensor) -> torch.Tensor:
        return self.identity(len(index))

    def enumerate(self) -> torch.Tensor:
        return self.identity(2)


@pytest.mark.parametrize(
    "around",
    [
        lambda one: TopK(explainer=one, k=2),
        lambda one: Symmetrised(explainer=one, space=Still()),
        lambda one: TopK(explainer=Symmetrised(explainer=one, space=Still()), k=2),
    ],
)
def test_explainers_around_it_hand_on_the_scores_of_the_unperturbed_model(tmp_path, around: Any) -> None:
    """The prompts are those that the explainer asks alone, whatever the batch."""
    one = explainer(Following({}), k=1)
    audit(one).run(tmp_path / "alone", progress=False)
    audit(around(one)).run(tmp_path / "around", progress=False, batch=2)
    alone, wrapped = ({one["prompt"] for one in stored(tmp_path / name).values()} for name in ("alone", "around"))
    assert wrapped == alone
    assert sum("as confident as before" not in prompt for prompt in wrapped) > 3


def test_a_symmetrised_one_reads_the_scores_of_each_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are explained in parts, and every part has its own p0."""
    seen: list[tuple[str, str]] = []

    def asked(self: Any, text: str, label: str, titles: Any, p0: float, p1: float) -> str:
        if p0 != 0.5:
            seen.append((text, f"{p0:.2f}"))
        return f"{text} {p0}"

    monkeypatch.setattr(LanguageModelExplainer, "asked", asked)
    original = torch.tensor([[0.9, 0.1], [0.7, 0.3], [0.2, 0.8]]).log()
    explained(Symmetrised(explainer=explainer(), space=Still()), original=original)
    assert dict(seen) == dict(zip(TEXTS, ("0.90", "0.70", "0.20"), strict=True))


def test_a_symmetry_that_moves_words_is_refused() -> None:
    with pytest.raises(InputError, match="moves their words: explain the texts themselves"):
        audit(Symmetrised(explainer=explainer(), space=TokenPermutations(), draws=2)).prepare()
    with pytest.raises(InputError, match="moves their words"):
        audit(Symmetrised(explainer=TopK(explainer=explainer()), space=TokenPermutations(), draws=2)).prepare()


def stored(folder) -> dict[str, Any]:
    tables = [json.loads(path.read_text()) for path in (folder / "answers").glob("*.json")]
    return {key: one for table in tables for key, one in table["answers"].items()}


def test_a_resumed_run_asks_nothing_again(tmp_path) -> None:
    model = Preferring({"film": 3.0, "dull": 2.0})
    one = explainer(model, k=2)
    first = audit(one).run(tmp_path, progress=False).table()
    asked = len(model.rows)
    assert asked > 0
    for cell in (*(tmp_path / "cells").iterdir(), *(tmp_path / "explanations").iterdir()):
        cell.unlink()
    again = audit(replace(one)).run(tmp_path, progress=False).table()
    assert len(model.rows) == asked
    assert again["no_response"].tolist() == first["no_response"].tolist()


class Stopping(Preferring):
    """Stops the process's work at its fourth call, as a signal does, unless it may go on."""

    def forward(self, input_ids, attention_mask=None):
        if len(self.rows) == 4 and not self.config.__dict__.get("on"):
            raise KeyboardInterrupt
        return super().forward(input_ids, attention_mask)


def test_a_run_that_was_stopped_asks_only_what_is_missing(tmp_path) -> None:
    """Every record that was begun is whole or absent, and what is half written is swept away."""
    model = Stopping({"film": 3.0})
    one = explainer(model, k=1, batch=1)
    with pytest.raises(KeyboardInterrupt):
        audit(one).run(tmp_path / "stopped", progress=False)
    before = stored(tmp_path / "stopped")
    assert before
    (tmp_path / "stopped" / "answers" / ".half.json.0123abcd.part").write_text("{")
    model.config.on = True
    model.rows.clear()
    resumed = audit(one).run(tmp_path / "stopped", progress=False).table()
    after = stored(tmp_path / "stopped")
    assert {key: after[key] for key in before} == before
    asked = len(model.rows)
    model.rows.clear()
    whole = audit(one).run(tmp_path / "whole", progress=False).table()
    assert asked < len(model.rows)
    assert stored(tmp_path / "whole") == after
    assert resumed["no_response"].tolist() == whole["no_response"].tolist()
    assert not list((tmp_path / "stopped" / "answers").glob(".*"))


def test_answers_are_kept_every_few_batches(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("veracity.explain.llm_x.KEPT", 1)
    texts = ["a fine film", "a dull film", "no heart", "not very dull", "a film", "very fine"]
    audit(explainer(Preferring({}), batch=2), texts).run(tmp_path, progress=False)
    assert max(len(json.loads(path.read_text())["answers"]) for path in (tmp_path / "answers").glob("*.json")) == 2


def test_damaged_answers_are_asked_again(tmp_path) -> None:
    model = Preferring({"film": 3.0})
    audit(explainer(model)).run(tmp_path, progress=False)
    asked = len(model.rows)
    for cell in (*(tmp_path / "cells").iterdir(), *(tmp_path / "explanations").iterdir()):
        cell.unlink()
    for path in (tmp_path / "answers").iterdir():
        path.write_bytes(path.read_bytes().replace(b'"likelihoods": [', b'"likelihoods": [0.5, '))
    with pytest.warns(UserWarning, match="damaged"):
        audit(explainer(model)).run(tmp_path, progress=False)
    assert len(model.rows) > asked


def test_another_model_or_prompt_is_asked_anew(tmp_path) -> None:
    model = Preferring({"film": 3.0})
    audit(explainer(model)).run(tmp_path, progress=False)
    asked = len(model.rows)
    audit(explainer(model, prompt="synonyms")).run(tmp_path, progress=False)
    assert len(model.rows) > asked
    other = Preferring({"film": 4.0})
    audit(explainer(other)).run(tmp_path, progress=False)
    assert other.rows


def test_a_template_that_inserts_the_date_is_asked_anew_on_another_day(tmp_path) -> None:
    """Answers belong to the tokens that the model saw; a tokenizer without a file of its own is known by its template."""

    class Dated:
        def __init__(self, day: str) -> None:
            self.day = day

        def __getattr__(self, name: str) -> Any:
            return getattr(llm_tokenizer(), name)

        def __call__(self, *args: Any, **settings: Any) -> Any:
            return llm_tokenizer()(*args, **settings)

        def apply_chat_template(self, said: Any, **settings: Any) -> str:
            return f"{self.day} {llm_tokenizer().apply_chat_template(said, **settings)}"

    keys = []
    for day in ("a", "a", "very"):
        known: dict[str, Any] = {}
        kept_answers = SimpleNamespace(get=lambda keys, user: {}, put=lambda about, made, known=known: known.update(made))
        one = LanguageModelExplainer(model=Preferring({"film": 3.0}), tokenizer=Dated(day))
        one.answers(["a film"], [["film"]], kept_answers)
        keys.append(set(known))
    assert keys[0] == keys[1]
    assert keys[0] != keys[2]


def test_another_precision_is_asked_anew() -> None:
    keys = []
    for model in (tiny_llama(), tiny_llama().double()):
        known: dict[str, Any] = {}
        kept_answers = SimpleNamespace(get=lambda keys, user: {}, put=lambda about, made, known=known: known.update(made))
        explainer(model).answers(["a film"], [["film"]], kept_answers)
        keys.append(set(known))
    assert keys[0] != keys[1]


def test_answers_that_cannot_be_used_are_counted(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = explainer(writing(monkeypatch, FORM, '["great"]', '["film"]', "film"), mode="generate", k=1)
    with pytest.warns(UserWarning, match=r"llm: \d+ of \d+ different answers of the language model are undefined"):
        result = audit(one).run(tmp_path, progress=False)
    problems = [answer["problem"] for answer in stored(tmp_path).values()]
    (note,) = [note for note in result.manifest["notes"] if note["explainer"] == "llm"]
    unparsable, echo, foreign = (problems.count(what) for what in ("unparsable", "echo", "foreign"))
    assert min(unparsable, echo, foreign) > 0
    assert note["text"] == (
        f"{unparsable + echo + foreign} of {len(problems)} different answers of the language model are undefined: {unparsable} no JSON "
        f"with a list of words, {echo} repeated the form that was shown, {foreign} named words that are not in the text."
    )
    assert note["text"] in result.save_report(tmp_path / "report.html").read_text()
    assert result.table()["undefined"].tolist()[0] > 0


def test_answers_inside_another_explainer_are_counted_for_it(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = explainer(writing(monkeypatch, "film"), mode="generate", k=1)
    with pytest.warns(UserWarning, match="different answers of the language model are undefined"):
        result = audit(one, explainers={"cut": TopK(explainer=one), "llm": one}).run(tmp_path, progress=False)
    notes = {note["explainer"]: note["text"] for note in result.manifest["notes"]}
    assert set(notes) >= {"cut", "llm"}
    assert notes["cut"] == notes["llm"]


def test_shared_answers_are_counted_for_every_explainer_that_uses_them(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names of classes that are given or read from the model make the same prompts, which are asked once; also in a resumed run."""
    one = explainer(writing(monkeypatch, "film"), mode="generate", k=1)
    other = replace(one, classes=("LABEL_0", "LABEL_1"))
    for _ in range(2):
        with pytest.warns(UserWarning, match="different answers of the language model are undefined"):
            result = audit(one, explainers={"first": one, "second": other}).run(tmp_path, progress=False)
        notes = {note["explainer"]: note["text"] for note in result.manifest["notes"]}
        assert notes["first"] == notes["second"]
        assert notes["first"].startswith(f"{len(stored(tmp_path))} of {len(stored(tmp_path))} ")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"prompt": "Which words of $text?"}, r"has no valid \$text and \$change"),
        ({"prompt": "$text $change $weights"}, r"has the unknown part \$weights"),
        ({"soft": True, "mode": "generate"}, "log-likelihoods only if it ranks words"),
        ({"model": "film"}, "There is no language model at 'film'"),
        ({"model": 3}, "must be a causal model of transformers"),
        ({"tokenizer": llm_tokenizer(chat=False)}, "has no chat template, so it cannot be asked in a dialogue"),
        (
            {"model": tiny_llama(max_position_embeddings=40)},
            r"text 0 has \d+ tokens with its answer, and the language model takes 40",
        ),
        ({"classes": ("one",)}, "has 1 names of classes, and the model has 2"),
    ],
)
def test_mistakes_are_one_sentence(settings: dict[str, Any], words: str) -> None:
    one = replace(explainer(), **settings)
    with pytest.raises(VeracityError, match=words) as error:
        explained(one)
    assert str(error.value).count(". ") == 0


def test_a_missing_language_model_is_named() -> None:
    with pytest.raises(SpecError, match="needs the setting 'model', the language model to ask: a causal model of transformers"):
        as_explainer("llm_x")
    with pytest.raises(SpecError, match="or the path of a folder or GGUF file"):
        LanguageModelExplainer()


def test_inputs_that_are_no_texts_and_outputs_without_probabilities_are_refused() -> None:
    with pytest.raises(InputError, match="llm_x explains texts, not inputs that are no texts"):
        explainer().check(torch.nn.Linear(3, 2), torch.ones(1, 3), torch.zeros(1).long())
    context = Context(Draws.of(0, torch.arange(1)), 1, outputs=Outputs.RAW)
    with pytest.raises(InputError, match="needs the probability of a class, and these outputs are raw"):
        explainer().check(torch.nn.Linear(3, 2), torch.ones(1, 3), torch.zeros(1).long(), context)


def test_a_model_without_generate_can_only_rank() -> None:
    with pytest.raises(InputError, match="cannot write answers, since it has no generate"):
        explained(explainer(Preferring({}), mode="generate"))


def test_it_is_asked_without_a_dialogue_too() -> None:
    one = replace(explainer(Preferring({"film": 3.0}), k=1, chat=False), tokenizer=llm_tokenizer(chat=False))
    assert explained(one)[0].tolist()[:3] == [0, 0, 1]


def test_a_word_without_tokens_counts_as_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    one = explainer(Preferring({"film": 3.0, "<unk>": 1.0}), k=2)
    tokens = one.llm.tokens

    def forgetting(texts: Any) -> Any:
        return [() if text == "fine" else found for text, found in zip(texts, tokens(texts), strict=True)]

    monkeypatch.setattr(one.llm, "tokens", forgetting)
    assert explained(one)[0].tolist()[:3] == [0, 1, 1]


def test_a_worker_gets_it_by_pickle() -> None:
    one = explainer(k=2)
    expected, twin = explained(one), pickle.loads(pickle.dumps(one))
    assert twin.spec() == one.spec()
    assert torch.equal(explained(twin), expected)


def test_by_name_with_a_folder(tmp_path) -> None:
    tiny_llama().save_pretrained(tmp_path)
    llm_tokenizer().save_pretrained(tmp_path)
    one = as_explainer({"name": "llm_x", "model": str(tmp_path), "k": 1})
    assert explained(one).sum(1).tolist() == explained(explainer(k=1)).sum(1).tolist()
    assert one.spec()["model"]["fingerprint"] == explainer(k=1).spec()["model"]["fingerprint"]
    with pytest.raises(SpecError):
        as_explainer({"name": "llm_x"})
