"""Maps cut to their k largest numbers: by hand, on texts of different lengths, around controls, and in an audit."""

import pytest
import torch
from shift_invariant import Digits, explain
from torch import nn

from text_models import TEXTS, text_model, tokenizer
from veracity import Audit
from veracity.core.errors import SpecError
from veracity.core.explainers import Context, Explainer
from veracity.core.randomness import Draws
from veracity.explain import IntegratedGradients, PartitionShap, RandomTopK, SuperpixelLime, TopK
from veracity.explain.masking import largest
from veracity.inputs import TextInputs
from veracity.scores import FastGEF
from veracity.testing.explainers import ExplainerConformance


class TestCut(ExplainerConformance):
    """Around an explainer by gradients, and around a random one."""

    @pytest.fixture(autouse=True, params=["saliency", "random_gaussian"])
    def choose(self, request):
        self.name = request.param

    def explainer(self) -> Explainer:
        return TopK(explainer=self.name, k=3)


def test_by_hand():
    maps = torch.tensor([[[3.0, 1.0], [2.0, 3.0]], [[-1.0, -2.0], [-3.0, -2.0]]])
    assert largest(maps, 1).tolist() == [[[1, 0], [0, 0]], [[1, 0], [0, 0]]]  # of two threes, the first
    assert largest(maps, 3).tolist() == [[[1, 0], [1, 1]], [[1, 1], [0, 1]]]
    assert largest(maps, 9).tolist() == [[[1, 1], [1, 1]]] * 2
    undefined = largest(torch.tensor([[1.0, float("nan")], [1.0, 2.0]]), 1)
    assert bool(undefined[0].isnan().all())
    assert undefined[1].tolist() == [0, 1]


def test_words_that_are_not_there_are_never_chosen():
    """Not even if they have the largest number, or none at all, or if a text has fewer words than k."""
    present = torch.tensor([[True, True, False, False], [True, True, True, True]])
    maps = torch.tensor([[-5.0, -4.0, 9.0, float("nan")], [1.0, 2.0, 3.0, 4.0]])
    assert largest(maps, 1, present).tolist() == [[0, 1, 0, 0], [0, 0, 0, 1]]
    assert largest(maps, 3, present).tolist() == [[1, 1, 0, 0], [0, 1, 1, 1]]


def of_texts(explainer, texts=TEXTS):
    inputs = TextInputs(texts, tokenizer())
    x = inputs.take(torch.arange(len(texts)))
    context = Context(Draws.of(0, torch.arange(len(texts))), 32, x.structure, present=x.present)
    return explainer.explain(inputs.adapt(text_model()), x.values, torch.ones(len(texts)).long(), context), x.present


@pytest.mark.parametrize("inner", [IntegratedGradients(steps=4), PartitionShap(), "attention_rollout", "random_gaussian", "position"])
def test_every_text_gets_k_words_or_all_of_them(inner):
    found, present = of_texts(TopK(explainer=inner, k=3))
    assert found.sum(1).tolist() == [3, 1, 3, 3]  # "dull" is one word
    assert not found[~present].any()
    longer, _ = of_texts(TopK(explainer=inner, k=3), [*TEXTS, "a very fine film with no heart and not very dull at all"])
    assert torch.equal(longer[:4, : found.shape[1]], found)


def test_random_words_are_drawn_for_each_text():
    found, present = of_texts(RandomTopK(k=3))
    assert found.sum(1).tolist() == [3, 1, 3, 3]
    assert not found[~present].any()
    many, _ = of_texts(RandomTopK(k=2), ["a dull film with no heart at all"] * 40)
    around, _ = of_texts(TopK(explainer="random_uniform", k=2), ["a dull film with no heart at all"] * 40)
    for one in (many, around):
        assert len(one.unique(dim=0)) > 10
        assert ((one.mean(0) - 2 / 8).abs() < 4 * (0.25 * 0.75 / 40) ** 0.5).all()


def test_it_is_a_control_around_a_control_only():
    assert TopK(explainer="random_uniform").control
    assert TopK(explainer="random_uniform").stochastic
    assert not TopK(explainer="saliency").control
    assert not TopK(explainer="saliency").stochastic
    assert not TopK(explainer="gradient").signed
    assert TopK(explainer="position").structured
    assert TopK(explainer="kernel_shap").cost(torch.Size((9,))) == TopK(explainer="kernel_shap").inner.cost(torch.Size((9,)))
    with pytest.raises(SpecError, match="top_k needs an explainer to cut"):
        TopK().check(nn.Identity(), torch.ones(1, 2), torch.zeros(1).long())


def test_an_explainer_that_looks_at_all_inputs_does_so_inside(digits: Digits):
    pytest.importorskip("skimage")
    x, targets = digits.inputs[:2], digits.targets[:2]
    inner = SuperpixelLime(samples=8)
    cut = TopK(explainer=inner, k=4).prepare(x)
    assert torch.equal(explain(cut, digits.model, x, targets), largest(explain(inner.prepare(x), digits.model, x, targets), 4))


@pytest.mark.filterwarnings("ignore::veracity.core.errors.Note")
def test_the_audit_counts_a_cut_control_as_a_control(tmp_path):
    explainers = {"ig": IntegratedGradients(steps=4), "ig 2": TopK(explainer=IntegratedGradients(steps=4), k=2)}
    explainers |= {"random 2": TopK(explainer="random_uniform", k=2), "rare 2": TopK(explainer="word_frequency", k=2)}
    audit = Audit(models=text_model(), inputs=TextInputs(TEXTS, tokenizer()), explainers=explainers, scores=["sparseness"])
    result = audit.run(tmp_path)
    control = {cell["explainer"]: cell["control"] for cell in result.manifest["cells"]}
    assert control["random 2"]
    assert control["rare 2"]
    assert not control["ig 2"]
    whole, two = (result.explanations("model", label) for label in ("ig", "ig 2"))
    present = TextInputs(TEXTS, tokenizer()).take(torch.arange(4)).present
    assert torch.equal(two, largest(whole, 2, present))


@pytest.mark.filterwarnings("ignore::veracity.core.errors.Note")
def test_random_words_do_not_follow_the_model(tmp_path):
    """Fast-GEF of random words is 0 within two standard errors, over four seeds. Words by rarity never change: undefined, not 0."""
    words = ("fine", "dull", "film", "heart")
    texts = [f"a {one} {two} with no {three}" for one in words for two in words for three in words[:3]]
    explainers = {"random": RandomTopK(k=2), "rare": TopK(explainer="word_frequency", k=2)}
    values = []
    for seed in range(4):
        audit = Audit(
            models=text_model(),
            inputs=TextInputs(texts, tokenizer()),
            explainers=explainers if seed == 0 else {"random": RandomTopK(k=2)},
            scores={"fast_gef": FastGEF(sigma=0.3, draws=4)},
            controls=False,
            companions=False,
            seed=seed,
        )
        result = audit.run(tmp_path / str(seed))
        values += result.samples("fast_gef").query("explainer == 'random'")["value"].dropna().tolist()
        if seed == 0:
            assert result.table().set_index("explainer").loc["rare", "undefined"] == len(texts)
    found = torch.tensor(values, dtype=torch.float64)
    assert len(found) > 180
    assert abs(found.mean()) < 2 * found.std() / len(found) ** 0.5


@pytest.mark.filterwarnings("ignore::veracity.core.errors.Note")
def test_the_null_is_as_many_random_words(tmp_path):
    """An audit adds it once per k, under its own label or that which it has already; old folders name no null."""
    cut = {f"ig {k}": TopK(explainer=IntegratedGradients(steps=4), k=k) for k in (2, 3)}
    explainers = {"ig": IntegratedGradients(steps=4), **cut, "too": TopK(explainer="saliency", k=2), "two": RandomTopK(k=2)}
    settings = {"models": text_model(), "inputs": TextInputs(TEXTS, tokenizer()), "scores": [FastGEF(sigma=0.3, draws=3)]}
    result = Audit(explainers=explainers, **settings, companions=False).run(tmp_path, progress=False)
    random = result.over_random("fast_gef").set_index("explainer")["random"]
    assert dict(random) == {"ig": "random_gaussian", "ig 2": "two", "ig 3": "random_top_k(k=3)", "too": "two"}
    table = result.table().set_index("explainer")
    assert table.loc["random_top_k(k=3)", "control"]
    assert table.loc["ig 3", "random_control"] == table.loc["random_top_k(k=3)", "value"]
    assert sum("random_top_k" in label for label in table.index) == 1
    for cell in result.manifest["cells"]:
        cell.pop("null", None)
    del result.__dict__["series"]
    assert result.over_random("fast_gef").set_index("explainer").loc["ig 3", "random"] == "random_uniform"


def test_the_null_of_a_k_that_exceeds_the_input_fits_it():
    x = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))
    audit = Audit(models=nn.Linear(3, 2), inputs=x, explainers={"top": TopK(explainer="gradient", k=9)}, scores=["sparseness"])
    assert audit.prepare().problem.nulls == {"top": "random_top_k(k=3)"}
    taken = {"top": TopK(explainer="gradient", k=2), "random_top_k(k=2)": "gradient"}
    with pytest.raises(SpecError, match=r"The label 'random_top_k\(k=2\)' of the explainer 'gradient' is that of a control of 'top'"):
        Audit(models=nn.Linear(3, 2), inputs=x, explainers=taken, scores=["sparseness"]).prepare()
