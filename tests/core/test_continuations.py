"""The log-probability of tokens after texts, against plain passes of a small Llama, and audits of causal language models."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import veracity
from language_models import llm_tokenizer, tiny_llama
from veracity import Audit, Continuation, Token
from veracity.core.dense_targets import ContinuationScores
from veracity.core.errors import InputError, VeracityError
from veracity.core.targets import Outputs
from veracity.inputs import TextInputs

pytest.importorskip("transformers")

TEXTS = ["The film", "a very dull film with no heart", "not fine"]
TOKENS = ((11,), (12, 16), (12, 17, 20), (12,))


def texts(side: str = "right", **settings) -> TextInputs:
    tokenizer = llm_tokenizer()
    tokenizer.padding_side = side
    found = TextInputs(TEXTS, tokenizer, removal="blank", **settings)
    assert found.encoding["input_ids"].shape[0] == 3
    tokenizer.padding_side = "right"
    return found


def by_hand(model, text: str, tokens: tuple[int, ...]) -> float:
    prompt = llm_tokenizer()(text, add_special_tokens=False)["input_ids"]
    with torch.no_grad():
        scores = torch.log_softmax(model(input_ids=torch.tensor([[*prompt, *tokens]])).logits[0], dim=1)
    return sum(float(scores[len(prompt) - 1 + at, token]) for at, token in enumerate(tokens))


def test_continuations_by_plain_passes() -> None:
    """On texts of different lengths, so that tokens follow the text and not its padding."""
    model, inputs = tiny_llama(), texts()
    x, view = inputs.take(torch.arange(3)), Continuation(tokens=TOKENS).view(inputs.adapt(model))
    with torch.no_grad():
        found = x.through(view)
    expected = [[by_hand(model, text, tokens) for tokens in TOKENS] for text in TEXTS]
    assert found.flatten().tolist() == pytest.approx([value for row in expected for value in row], abs=1e-4)


def test_padding_on_the_left_keeps_the_order_of_tokens() -> None:
    inputs = texts("left")
    gated = inputs.adapt(tiny_llama())
    x = inputs.take(torch.arange(3))
    (_, ids, units, *_), last = gated.extended(torch.tensor([21, 22]), x.values, *x.structure)
    width = x.structure[0].shape[1]
    assert last.tolist() == [width - 1] * 3
    assert ids[:, -2:].tolist() == [[21, 22]] * 3
    assert torch.equal(ids[:, :-2], x.structure[0])
    assert units[:, -2:].tolist() == [[-1, -1]] * 3


def test_tokens_are_put_before_the_padding_and_have_no_gate() -> None:
    inputs = texts()
    x = inputs.take(torch.arange(3))
    (gates, ids, units, mask, *_), last = inputs.adapt(tiny_llama()).extended(torch.tensor([21, 22]), x.values, *x.structure)
    assert last.tolist() == [1, 6, 1]
    assert ids[0].tolist() == [9, 12, 21, 22, 0, 0, 0, 0, 0]
    assert units[0].tolist() == [0, 1, -1, -1, -1, -1, -1, -1, -1]
    assert dict(zip(inputs.carried, (mask, *_), strict=False))["attention_mask"][0].tolist() == [1, 1, 1, 1, 0, 0, 0, 0, 0]
    assert ids[1].tolist() == [10, 14, 13, 12, 22, 15, 18, 21, 22]
    assert torch.equal(gates, x.values)


def test_one_token_is_the_next_token() -> None:
    model, inputs = tiny_llama(), texts()
    x, gated = inputs.take(torch.arange(3)), inputs.adapt(model)
    with torch.no_grad():
        every = torch.log_softmax(x.through(Token().view(gated)), dim=1)
        found = x.through(Continuation(tokens=((11,), (13,))).view(gated))
    torch.testing.assert_close(found, every[:, [11, 13]])


def test_closed_gates_reach_the_continuation_and_it_has_gradients() -> None:
    inputs = texts()
    x, view = inputs.take(torch.arange(3)), Continuation(tokens=((12, 16),)).view(inputs.adapt(tiny_llama()))
    gates = x.values.clone().requires_grad_()
    score = view(gates, *x.structure)
    (slope,) = torch.autograd.grad(score.sum(), gates)
    assert slope[1].abs().min() > 0
    closed = view(torch.zeros_like(x.values), *x.structure)
    assert (closed - score).abs().min() > 1e-4


def test_equal_beginnings_share_a_pass() -> None:
    model, calls = tiny_llama(), []
    model.register_forward_pre_hook(lambda *_: calls.append(1))
    inputs = texts()
    inputs.take(torch.arange(3)).through(Continuation(tokens=((11,), (12,), (12, 16), (12, 17))).view(inputs.adapt(model)))
    assert len(calls) == 2


def test_what_the_scores_are() -> None:
    assert Continuation(tokens=TOKENS).outputs is Outputs.LOGITS
    assert Continuation(tokens=((1, 2),)).outputs is Outputs.RAW
    assert Token().outputs is None
    made = Continuation.of(["fine film", "dull"], llm_tokenizer())
    assert made.tokens == ((11, 12), (13,))
    assert Continuation.of("fine", llm_tokenizer(), index=0).tokens == ((11,),)
    scores = torch.tensor([[-3.0, -1.0], [-1.0, -2.0]])
    assert made.choose(scores, None).tolist() == [1, 0]
    assert Continuation(tokens=made.tokens, index=1).choose(scores, None).tolist() == [1, 1]
    assert Continuation(tokens=made.tokens, labelled=True).choose(scores, torch.tensor([0, 0])).tolist() == [0, 0]
    assert veracity.Continuation is Continuation


def test_explainers_and_scores_of_a_causal_language_model(tmp_path: Path) -> None:
    """As a classifier by two continuations, and as the value of one; integrated gradients add up to the change of the score."""
    common = {"inputs": texts(), "controls": False, "companions": False}
    two = Audit(
        models={"llm": tiny_llama()},
        explainers=["integrated_gradients", "feature_ablation"],
        scores=["completeness", veracity.scores.FastGEF(steps=3, draws=2, sigma=0.2), "faithfulness_correlation"],
        target=Continuation.of(["fine film", "dull"], llm_tokenizer()),
        **common,
    ).run(tmp_path / "two", progress=False)
    table = two.table().set_index(["explainer", "score"])
    assert table["state"].tolist() == ["done"] * len(table)
    one = Audit(
        models={"llm": tiny_llama()},
        explainers=["gradient"],
        scores=[veracity.scores.FastGEF(steps=3, draws=2, sigma=0.2)],
        target=Continuation(tokens=((11, 12),)),
        **common,
    ).run(tmp_path / "one", progress=False)
    assert one.table()["n"].tolist() == [3]


def test_the_scores_of_all_positions_are_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A real vocabulary times all positions of all texts would not fit into memory."""
    from veracity.engine import admission

    kept = []
    sweep = admission.sweep
    monkeypatch.setattr(admission, "sweep", lambda *given: kept.append(found := sweep(*given)) or found)
    for target in (Continuation(tokens=((11,), (12,))), Token()):
        kept.clear()
        Audit(
            models={"llm": tiny_llama()}, inputs=texts(), explainers=["gradient"], scores=["sparseness"], controls=False, target=target
        ).prepare()
        assert {one.ndim for one in kept} == {2}
        assert len(kept) == 1


@pytest.mark.parametrize(
    ("target", "words"),
    [
        (Continuation(tokens=()), "A continuation has at least one token"),
        (Continuation(tokens=((11,), ())), "A continuation has at least one token"),
        (Continuation(tokens=((11, 99),)), "The continuation has the token 99, and the model knows 26"),
        (Continuation(tokens=((11,), (12,)), index=2), "The continuation must lie between 0 and 1"),
        (Continuation(tokens=((1,) * 300,)), "and 299 more follow it, but the model takes 256"),
    ],
)
def test_mistakes_are_one_sentence(target: Continuation, words: str) -> None:
    audit = Audit(
        models={"llm": tiny_llama()}, inputs=texts(), explainers=["gradient"], scores=["sparseness"], controls=False, target=target
    )
    with pytest.raises(VeracityError, match=words) as error:
        audit.prepare()
    assert str(error.value).count(". ") == 0


def test_other_inputs_and_outputs_are_refused() -> None:
    with pytest.raises(InputError, match=r"Continuation\(...\) needs a causal language model on texts"):
        ContinuationScores(torch.nn.Linear(2, 2), ((1,),))(torch.zeros(1, 2))
    from text_models import text_model, tokenizer

    inputs = TextInputs(["a fine film"], tokenizer())
    with pytest.raises(InputError, match=r"needs the scores of every token after every position, .* shape \(2,\)"):
        inputs.take(torch.arange(1)).through(Continuation(tokens=((5,),)).view(inputs.adapt(text_model())))
