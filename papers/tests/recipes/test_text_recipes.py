"""The recipes of texts and satellite images run at their smallest scale."""

import pytest

from language_models import Preferring, llm_tokenizer
from veracity.explain import LanguageModel, PartitionShap, TopK, WordFrequency
from veracity.recipe import Scale
from veracity_papers.data import files
from veracity_papers.data.imdb import imdb_texts
from veracity_papers.data.texts import sst2
from veracity_papers.recipes.faithfulness_text import (
    EFFORTS,
    Effort,
    cut,
    faithfulness_text,
    language_model_audit,
    text_audit,
    text_methods,
)
from veracity_papers.recipes.gef_agreement_text import gef_agreement_text
from veracity_papers.recipes.texts_and_images import text_sms, text_sst2, vision_eurosat, vision_eurosat_resnet

pytest.importorskip("transformers")


@pytest.mark.filterwarnings("ignore::veracity.core.errors.Note")
def test_faithfulness_of_texts(tmp_path):
    """Every method is measured uncut and cut, beside random tokens and the published figures."""
    if files.locate("sst2/dev.tsv") is None:
        pytest.skip("sst2/dev.tsv is not here")
    table = faithfulness_text.assemble(tmp_path, Scale.SMOKE).run(tmp_path / "run").table()
    methods = ("integrated_gradients", "attn_lrp")
    assert {*methods, *(f"{name}, top {k}" for name in (*methods, "random") for k in (5, 10))} <= set(table["explainer"])
    assert (table["cells_failed"] == 0).all()
    rows = table.set_index(["explainer", "score"])
    assert rows.loc[("integrated_gradients", "fast_gef_public"), "published"] == 0.77
    assert rows.loc[("random, top 5", "fast_gef_public"), "published"] == -0.08
    assert rows.loc["random, top 5", "control"].all()
    assert not rows.loc["integrated_gradients, top 5", "control"].any()


@pytest.mark.filterwarnings("ignore::veracity.core.errors.Note")
def test_a_language_model_explains_beside_random_tokens(tmp_path, monkeypatch):
    """One that ranks words the same way whatever the classifier does gets no response."""
    if files.locate("sst2/dev.tsv") is None:
        pytest.skip("sst2/dev.tsv is not here")
    monkeypatch.setitem(EFFORTS, Scale.SMALL, Effort(2, draws=1, levels=3, sigma=0.5, asked=2))
    llm = LanguageModel(Preferring({"film": 2.0}), llm_tokenizer())
    table = language_model_audit(sst2, Scale.SMALL, llm).run(tmp_path / "run", progress=False).table().set_index(["explainer", "score"])
    assert table.loc[("llm_x, top 5", "fast_gef_public"), "published"] == 0.05
    assert table.loc[("llm_x, top 10", "fast_gef"), "no_response"] == 2
    assert table.loc[("random, top 5", "fast_gef"), "control"]
    assert set(table.index.get_level_values("score")) == {"fast_gef", "fast_gef_public"}


@pytest.mark.filterwarnings("ignore::veracity.core.errors.Note")
def test_a_causal_language_model_judges_reviews(tmp_path, monkeypatch):
    """Methods for encoders read it too: they beat random tokens, and no cell fails."""
    if files.locate("imdb/imdb_test_5000.jsonl.gz") is None:
        pytest.skip("imdb/imdb_test_5000.jsonl.gz is not here")
    few = Effort(4, evaluations=16, draws=1, levels=3, segments=1, sigma=0.5, counted=50, methods=("integrated_gradients", "attn_lrp"))
    monkeypatch.setitem(EFFORTS, Scale.SMALL, few)
    audit = text_audit(imdb_texts, Scale.SMALL)
    assert list(audit.models) == ["llama"]
    assert all(30 < len(text.split()) <= 80 for text in audit.inputs.texts)
    result = audit.run(tmp_path / "run", progress=False)
    table = result.table().set_index(["explainer", "score"])
    assert (table["cells_failed"] == 0).all()
    assert table.loc[("integrated_gradients", "fast_gef"), "value"] > table.loc[("random, top 5", "fast_gef"), "value"]


def test_all_methods_of_the_paper_are_cut_the_same_way():
    effort = EFFORTS[Scale.PAPER]
    found = cut(text_methods(effort, WordFrequency()))
    assert len(found) == 3 * 6 + 2
    assert (effort.samples, found["integrated_gradients"].steps, found["partition_shap"].evaluations) == (250, 10, 500)
    assert found["partition_shap, top 10"] == TopK(explainer=PartitionShap(evaluations=500), k=10)
    assert all(one.control for name, one in found.items() if name.startswith(("random", "word_frequency")))


@pytest.mark.filterwarnings("ignore::veracity.core.errors.Note")
@pytest.mark.parametrize(
    ("made", "needed", "rows"),
    [
        (text_sst2, "sst2/dev.tsv", {"integrated_gradients", "attention_rollout", "kernel_shap", "input_x_gradient"}),
        (text_sms, "sms_spam/SMSSpamCollection", {"integrated_gradients", "attention_rollout", "kernel_shap", "input_x_gradient"}),
        (vision_eurosat, "eurosat/eurosat_rgb_240perclass.zip", {"integrated_gradients", "grad_cam", "attention_rollout"}),
        (vision_eurosat_resnet, "eurosat/eurosat_rgb_240perclass.zip", {"integrated_gradients", "grad_cam"}),
    ],
)
def test_smoke(made, needed, rows, tmp_path):
    if files.locate(needed) is None:
        pytest.skip(f"{needed} is not here")
    assemble = getattr(made, "assemble", made)
    table = assemble(tmp_path, Scale.SMOKE).run(tmp_path / "run").table()
    assert rows <= set(table["explainer"])
    assert (table["cells_failed"] == 0).all()


def test_both_scores_rank_explainers_of_text(tmp_path):
    if files.locate("sst2/dev.tsv") is None:
        pytest.skip("sst2 is not here")
    result = gef_agreement_text.assemble(tmp_path, Scale.SMOKE).run(tmp_path / "run", progress=False)
    table = result.table().set_index(["explainer", "score"])["value"]
    assert result.summary["explainers"].tolist() == [2]
    assert (table > 0).all()
    assert result.failures().empty
