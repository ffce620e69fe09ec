"""Texts as gates at the word embedding: against the model on token numbers, against Captum, and with texts of other lengths."""

import warnings
from copy import deepcopy

import captum
import pytest
import torch

from text_models import TEXTS, text_model, tokenizer
from veracity import Audit
from veracity.core.errors import InputError, Note, SpecError
from veracity.core.explainers import Context
from veracity.core.models import evaluating, real_positions
from veracity.core.randomness import Draws
from veracity.explain import IntegratedGradients, KernelShap, Lime, RandomGaussian, RandomTopK, SmoothGrad
from veracity.inputs import TextInputs
from veracity.perturb import CyclicShift, EmbeddingNoise
from veracity.scores import (
    AUC,
    EffectiveComplexity,
    FaithfulnessCorrelation,
    FaithfulnessEstimate,
    FastGEF,
    InputInvariance,
    MaxSensitivity,
    Monotonicity,
    MonotonicityCorrelation,
    NonSensitivity,
    PointingGame,
    RegionPerturbation,
    RelevanceRankAccuracy,
    Selectivity,
    SensitivityN,
)
from veracity.walk import MonteCarlo

pytest.importorskip("transformers")
LONG = "not a very very fine film with no heart at all"


def signals(texts, **settings):
    inputs = TextInputs(texts, tokenizer(), **settings)
    return inputs, inputs.take(torch.arange(len(texts)))


def explained(explainer, texts, rows=4):
    """The first values of the first texts' maps."""
    inputs, x = signals(texts)
    context = Context(Draws.of(0, torch.arange(len(texts))), 64, x.structure, present=x.present)
    maps = explainer.explain(inputs.adapt(text_model()), x.values, torch.ones(len(texts)).long(), context)
    return x.blank(maps)[:rows, :8].detach()


def test_a_gate_of_zero_is_the_mask_token():
    inputs, x = signals(TEXTS)
    model, coded = text_model(), tokenizer()(TEXTS, padding=True, return_tensors="pt")
    gates = torch.rand(x.values.shape, generator=torch.Generator().manual_seed(0)).round() * x.values
    with torch.no_grad():
        found = inputs.adapt(model)(gates, *x.structure)
        for row, text in enumerate(TEXTS):
            ids = tokenizer()(text, return_tensors="pt")["input_ids"]
            inside = ids[:, 1:-1]
            inside[0, gates[row, : inside.shape[1]] == 0] = tokenizer().mask_token_id
            assert found[row].tolist() == pytest.approx(model(input_ids=ids).logits[0].tolist(), abs=1e-5)
        whole = inputs.adapt(model)(x.values, *x.structure)
        assert torch.allclose(whole, model(**{name: coded[name] for name in ("input_ids", "attention_mask")}).logits, atol=1e-6)


def test_a_dropped_token_is_attended_to_by_nobody():
    inputs, x = signals(["a fine film", "dull"], removal="drop")
    gates = x.values.clone()
    gates[0, 1] = 0.0
    coded = tokenizer()(["a fine film", "dull"], padding=True, return_tensors="pt")
    coded["attention_mask"][0, 2] = 0
    model = text_model()
    with torch.no_grad():
        expected = model(input_ids=coded["input_ids"], attention_mask=coded["attention_mask"]).logits
        assert torch.allclose(inputs.adapt(model)(gates, *x.structure), expected, atol=1e-6)


def test_integrated_gradients_over_gates_are_captums_over_the_embedding():
    model, (inputs, x) = text_model(), signals(TEXTS)
    context = Context(Draws.of(0, torch.arange(4)), 64, x.structure)
    targets = torch.tensor([0, 1, 1, 0])
    found = IntegratedGradients(steps=20).explain(inputs.adapt(model), x.values, targets, context)
    ids, units, mask = x.structure[:3]
    base = torch.where(units >= 0, tokenizer().mask_token_id, ids)
    method = captum.attr.LayerIntegratedGradients(lambda i, m: model(input_ids=i, attention_mask=m).logits, model.get_input_embeddings())
    with warnings.catch_warnings(), evaluating(model):
        warnings.simplefilter("ignore")
        maps = method.attribute(ids, base, target=targets, additional_forward_args=(mask,), n_steps=20).sum(-1)
    for row in range(4):
        own = maps[row][units[row] >= 0]
        assert found[row, : len(own)].tolist() == pytest.approx(own.tolist(), abs=1e-5)


@pytest.mark.parametrize(
    "explainer", [IntegratedGradients(steps=5), KernelShap(samples=40), Lime(samples=40), RandomGaussian(), RandomTopK(k=2)]
)
def test_a_longer_text_beside_them_changes_no_map(explainer):
    assert torch.allclose(explained(explainer, TEXTS), explained(explainer, [*TEXTS, LONG]), atol=1e-6)


def test_smooth_grad_moves_the_gates_of_every_text():
    alone, beside = (explained(SmoothGrad(), texts, rows=1) for texts in (TEXTS[:1], TEXTS))
    gradients = explained(SmoothGrad(sigma=0.0), TEXTS[:1], rows=1)
    assert not torch.allclose(alone, gradients, atol=1e-4)
    assert not torch.allclose(beside[:, :3], gradients[:, :3], atol=1e-4)


SCORES = {
    "correlation": FaithfulnessCorrelation(nr_runs=12),
    **{name: name for name in ("pixel_flipping", "deletion", "insertion", "sparseness", "complexity", "completeness")},
    "gates": MaxSensitivity(walk=MonteCarlo(draws=3)),
    "l2": MaxSensitivity(walk=MonteCarlo(draws=3), norm="l2"),
}


def values(folder, texts):
    audit = Audit(models=text_model(), inputs=TextInputs(texts, tokenizer()), explainers=["feature_ablation"], scores=SCORES, seed=0)
    result = audit.run(folder)
    found = {}
    for score in SCORES:
        for row in result.samples(score).itertuples():
            if row.sample < len(TEXTS):
                found[row.explainer, score, row.sample] = row.value
    return found


def test_no_score_of_a_text_depends_on_longer_texts_beside_it(tmp_path):
    alone, beside = values(tmp_path / "alone", TEXTS), values(tmp_path / "beside", [*TEXTS, LONG])
    assert alone.keys() == beside.keys()
    for name, value in alone.items():
        assert beside[name] == pytest.approx(value, abs=1e-5, nan_ok=True), name  # products of wider rows are rounded otherwise


def test_weights_and_embeddings_can_be_perturbed(tmp_path):
    scores = {
        "fast": FastGEF(sigma=0.3, draws=2, steps=3),
        "vectors": MaxSensitivity(space=EmbeddingNoise(sigma=0.5), walk=MonteCarlo(draws=2)),
        "weights": "mprt",
    }
    inputs = TextInputs(TEXTS, tokenizer(), unit="word")
    audit = Audit(models=text_model(), inputs=inputs, explainers=["gradient", "attention_rollout"], scores=scores, controls=False)
    found = audit.run(tmp_path).table().set_index(["explainer", "score"])["value"]
    assert found.notna().all()
    assert found["gradient", "vectors"] > 0


def test_regions_of_a_text_are_its_words(tmp_path):
    scores = {"eight": RegionPerturbation(), "one": RegionPerturbation(patch_size=1)}
    short = ["dull", "a fine film"]
    asked = Audit(models=text_model(), inputs=TextInputs(short, tokenizer()), explainers=["gradient"], scores=scores, controls=False)
    run = asked.run(tmp_path, progress=False)
    assert not len(run.failures())
    eight, one = (run.samples(score)["value"].to_numpy() for score in scores)
    assert eight == pytest.approx(one)
    x = TextInputs(short, tokenizer())
    model, single = x.adapt(text_model()), x.take(torch.tensor([0]))
    whole, gone = (model(single.values * gate, *single.structure).softmax(1) for gate in (1.0, 0.0))
    target = int(whole.argmax())
    assert eight[0] == pytest.approx(float(whole[0, target] - gone[0, target]) / 2, abs=1e-6)


def test_embedding_noise_leaves_special_tokens_and_padding_alone():
    inputs, x = signals(TEXTS)
    model = text_model()
    space = EmbeddingNoise(sigma=0.5).fit(x.values.shape[1:]).of(model)
    element = torch.randn(4, space.latents, generator=torch.Generator().manual_seed(0))
    moved, seen = space.move(element, x), []
    handle = model.distilbert.embeddings.LayerNorm.register_forward_pre_hook(lambda _m, args: seen.append(args[0].detach()))
    for one in (x, moved):
        one.through(inputs.adapt(model))
    handle.remove()
    change, units = (seen[1] - seen[0]).norm(dim=-1), x.structure[1]
    assert not change[units < 0].any()
    table = model.get_input_embeddings().weight
    row, unit = 2, 3
    expected = 0.5 * table.square().mean().sqrt() * element[row].reshape(-1, 16)[unit]
    assert (seen[1] - seen[0])[row, unit + 1].tolist() == pytest.approx(expected.tolist(), abs=1e-5)


class Named(torch.nn.Module):
    """A text model that returns a plain dict."""

    def __init__(self):
        super().__init__()
        self.inner = text_model()

    def get_input_embeddings(self):
        return self.inner.get_input_embeddings()

    def forward(self, input_ids, attention_mask):
        return {"loss": torch.zeros(()), "logits": self.inner(input_ids=input_ids, attention_mask=attention_mask).logits}


def test_scores_in_a_dict_are_those_of_the_model():
    inputs, x = signals(TEXTS)
    assert torch.equal(inputs.adapt(Named())(x.values, *x.structure), inputs.adapt(text_model())(x.values, *x.structure))


def test_the_padding_is_known_beside_noise_on_the_embedding():
    inputs, x = signals(TEXTS)
    model = inputs.adapt(text_model())
    space = EmbeddingNoise(sigma=0.5).fit(x.values.shape[1:]).of(model)
    moved = space.move(torch.zeros(4, space.latents), x)
    assert real_positions(model, moved.values, *moved.structure).sum(1).tolist() == [5, 3, 10, 6]


def test_encodings_are_taken_with_and_without_a_tokenizer():
    coded = tokenizer()(TEXTS, padding=True, return_tensors="pt")
    plain = TextInputs(TEXTS, tokenizer())
    for found in (
        TextInputs.of_encoding(coded, tokenizer()),
        TextInputs.of_encoding(coded["input_ids"], tokenizer()),
        TextInputs.of_encoding(coded["input_ids"], special=(2, 3), mask=4, pad=0),
        TextInputs.of_encoding({name: coded[name] for name in ("input_ids", "attention_mask")}, special=(2, 3), mask=4),
    ):
        assert torch.equal(found.units, plain.units)
        assert found.shape == plain.shape
    assert TextInputs.of_encoding(coded, tokenizer()).words(0) == ["a", "fine", "film"]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: TextInputs(TEXTS, tokenizer()).adapt(text_model(vocab_size=10)),
            "the token 14, and the model knows 10 tokens: pass the tokenizer of this",
        ),
        (
            lambda: TextInputs([LONG, "dull"], tokenizer()).adapt(text_model(max_position_embeddings=8)),
            "Text 0 has 13 tokens, and the model takes 8",
        ),
        (lambda: TextInputs("dull", tokenizer()), "a list of at least one text"),
        (lambda: TextInputs(["dull", 3], tokenizer()), "Text 1 is 3, of type int: every text must be a string."),
        (
            lambda: TextInputs([LONG, "dull", LONG], tokenizer(), length=8).shape,
            r"2 of 3 texts have more tokens than the 8 that the model takes, such as text 0 with 13: shorten them, or pass "
            r"TextInputs\(\.\.\., truncate=True\); in an audit file, truncate = true\.",
        ),
        (
            lambda: TextInputs(["dull"], tokenizer(), length=0),
            "length=0 leaves nothing of a text: give the most tokens that the model takes",
        ),
        (lambda: TextInputs(["dull"], tokenizer(), length=2, truncate=True).shape, "length=2 leaves no room beside 2 special tokens"),
        (lambda: TextInputs(["dull", ""], tokenizer()).shape, "Text 1 is empty or holds only special tokens, so there .*: leave it out"),
        (lambda: TextInputs(["", "a film", " "], tokenizer(), unit="word").shape, "Texts 0, 2 are empty or hold only special tokens"),
        (lambda: TextInputs.of_encoding(torch.ones(2, 3)), "input_ids must be whole numbers"),
        (lambda: TextInputs.of_encoding(torch.ones(2, 3).long()), "pass TextInputs.of_encoding"),
        (lambda: TextInputs.of_encoding(torch.ones(2, 3).long(), mask=4), "need the number of the token that fills short texts"),
    ],
)
def test_mistakes_are_told_in_a_sentence(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_what_was_cut_off_is_said():
    with pytest.warns(Note, match=r"Text 0 has 13 tokens, and the model takes 8: what comes after these was cut off\."):
        assert TextInputs([LONG, "dull"], tokenizer(), length=8, truncate=True).encoding["input_ids"].shape == (2, 8)


def test_words_of_an_encoding_are_those_of_its_texts():
    texts = ["a finely film", "dull"]
    coded, plain = tokenizer()(texts, padding=True, return_tensors="pt"), TextInputs(texts, tokenizer(), unit="word")
    assert torch.equal(TextInputs.of_encoding(coded, tokenizer(), unit="word").units, plain.units)
    assert plain.units[0].tolist() == [-1, 0, 1, 1, 2, -1]
    with pytest.raises(InputError, match="unit='word' needs to know the words of the tokens"):
        _ = TextInputs.of_encoding(coded["input_ids"], tokenizer(), unit="word").units


def test_a_token_with_the_number_0_is_a_word_where_padding_is_masked():
    coded = {"input_ids": torch.tensor([[2, 0, 5, 3], [2, 6, 3, 3]]), "attention_mask": torch.tensor([[1, 1, 1, 1], [1, 1, 1, 0]])}
    assert TextInputs.of_encoding(coded, special=(2, 3), mask=4).units.tolist() == [[-1, 0, 1, -1], [-1, 0, -1, -1]]


def without(*tokens):
    """The tokenizer without some of its special tokens."""
    found = deepcopy(tokenizer())
    for name in tokens:
        setattr(found, name, None)
    return found


@pytest.mark.parametrize("removal", ["replace", "blank", "drop"])
def test_a_tokenizer_without_mask_and_padding_is_told_in_a_sentence(removal):
    for make in (
        lambda: TextInputs(TEXTS, without("pad_token", "mask_token"), removal=removal),
        lambda: TextInputs(TEXTS[:1], without("pad_token", "mask_token"), removal=removal),
        lambda: TextInputs.of_encoding(tokenizer()(TEXTS[:1], return_tensors="pt"), without("pad_token", "mask_token")),
    ):
        with pytest.raises(InputError) as caught:
            make()
        assert str(caught.value).startswith("This tokenizer has neither a mask token nor a padding token")
        assert "tokenizer.pad_token = tokenizer.sep_token, and pass removal='blank' or removal='drop'." in str(caught.value)
    with pytest.raises(InputError, match="no mask token: pass removal='blank' or removal='drop'"):
        TextInputs(TEXTS, without("mask_token"))
    with pytest.raises(InputError, match="no padding token: set tokenizer"):
        TextInputs(TEXTS, without("pad_token"))


@pytest.mark.parametrize("missing", [(), ("sep_token",), ("sep_token", "unk_token", "cls_token")])
def test_the_advice_on_padding_works_when_it_is_followed(missing):
    bare = without("pad_token", "mask_token", *missing)
    with pytest.raises(InputError) as caught:
        TextInputs(TEXTS, bare, removal="drop")
    advice = str(caught.value).split(": set ")[1].split(", and pass")[0]
    if len(missing) == 3:
        assert advice == "tokenizer.pad_token to a token of its vocabulary"
        return
    bare.pad_token = getattr(bare, advice.rpartition(".")[2])
    for removal in ("blank", "drop"):
        assert TextInputs(TEXTS, bare, removal=removal).shape == (8,)


def test_one_text_needs_no_padding_token():
    alone = TextInputs(TEXTS[:1], without("pad_token"))
    assert alone.words(0) == ["a", "fine", "film"]
    assert len(alone.spelt(0)[1]) == 3


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"removal": "mask"}, "removal must be 'replace', 'blank' or 'drop', not 'mask'. Did you mean 'replace'?"),
        ({"removal": "blnk"}, "removal must be 'replace', 'blank' or 'drop', not 'blnk'. Did you mean 'blank'?"),
        ({"removal": None}, "removal must be 'replace', 'blank' or 'drop', not None."),
        ({"unit": "words"}, "unit must be 'token' or 'word', not 'words'. Did you mean 'word'?"),
        ({"unit": 3}, "unit must be 'token' or 'word', not 3."),
    ],
)
def test_an_unknown_unit_or_removal_is_refused(given, told):
    with pytest.raises(InputError) as caught:
        TextInputs(TEXTS, tokenizer(), **given)
    assert str(caught.value) == told
    if "unit" in given:
        with pytest.raises(InputError) as caught:
            TextInputs.of_encoding(tokenizer()(TEXTS, padding=True, return_tensors="pt"), tokenizer(), **given)
        assert str(caught.value) == told


def test_a_symmetry_that_moves_gates_alone_is_refused():
    with pytest.raises(InputError, match=r"would move the gates of a text and leave its words in place: use TokenPermutations\(\)"):
        Audit(
            models=text_model(), inputs=TextInputs(TEXTS, tokenizer()), explainers=["gradient"], symmetry=CyclicShift(axes=(-1,))
        ).prepare()


@pytest.mark.parametrize("baseline", ["mean", "median", "white"])
def test_a_baseline_that_changes_nothing_is_refused(baseline):
    scores = [FaithfulnessCorrelation(nr_runs=4, perturb_baseline=baseline)]
    asked = Audit(models=text_model(), inputs=TextInputs(TEXTS, tokenizer()), explainers=["gradient"], scores=scores)
    with pytest.raises(SpecError, match=f"The baseline '{baseline}' .* changes nothing in texts and graphs"):
        asked.prepare()


def test_a_special_token_inside_a_text_is_no_unit():
    texts = ["a [SEP] fine film", "dull"]
    coded = tokenizer()(texts, padding=True, return_tensors="pt")
    for unit in ("word", "token"):
        for inputs in (TextInputs.of_encoding(coded, tokenizer(), unit=unit), TextInputs(texts, tokenizer(), unit=unit)):
            assert inputs.units[0].tolist() == [-1, 0, -1, 1, 2, -1]
            assert inputs.words(0) == ["a", "fine", "film"]


def test_scores_of_a_short_text_do_not_depend_on_longer_ones(tmp_path):
    short, truth = "a very fine film", torch.tensor([[True, False, True, False]])
    scores = [
        FaithfulnessEstimate(), Monotonicity(), Selectivity(), MonotonicityCorrelation(), NonSensitivity(), EffectiveComplexity(),
        SensitivityN(nr_runs=8), InputInvariance(), PointingGame(), AUC(), RelevanceRankAccuracy(),
    ]  # fmt: skip

    def values(texts, masks, folder):
        inputs = TextInputs(texts, tokenizer())
        audit = Audit(models=text_model(), inputs=inputs, explainers=["gradient"], scores=scores, truth=masks, controls=False)
        result = audit.run(tmp_path / folder, progress=False)
        assert result.failures().empty
        return [result.samples(score.name)["value"].tolist()[0] for score in scores]

    width = TextInputs([short, LONG], tokenizer()).shape[0]
    both = torch.zeros(2, width, dtype=torch.bool)
    both[0, :4], both[1, 0] = truth[0], True
    alone = values([short], truth, "alone")
    assert alone == pytest.approx(values([short, LONG], both, "both"), abs=1e-4, nan_ok=True)
    assert sum(value == value for value in alone) == len(scores)


def test_sizes_of_subsets_are_those_of_each_text(tmp_path):
    """A text of 3 words has subsets of 1 and 2 words beside one of 60, and one word alone has none."""
    texts = ["a fine film", "not a dull film", " ".join(["a fine film not dull"] * 12), "dull"]
    inputs = TextInputs(texts, tokenizer())
    model = text_model(max_position_embeddings=80)
    audit = Audit(models=model, inputs=inputs, explainers=["gradient"], scores=[SensitivityN(nr_runs=8)], controls=False)
    result = audit.run(tmp_path, progress=False)
    assert result.failures().empty
    assert result.samples("sensitivity_n")["value"].notna().tolist() == [True, True, True, False]


@pytest.mark.parametrize("score", [MonotonicityCorrelation(), NonSensitivity(), EffectiveComplexity()])
def test_words_without_other_values_are_removed_once(score):
    inputs = TextInputs(["a fine film", "dull film"], tokenizer())
    audit = Audit(models=text_model(), inputs=inputs, explainers=["gradient"], scores=[score], controls=False, companions=False)
    (request,) = {cell.request for job in audit.prepare().jobs for cell in job.cells if cell.score.name == score.name}
    assert request.space.space.baseline == 0.0
    assert request.walk.length(request.space) == 1
