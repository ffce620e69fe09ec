"""The recipes of texts and satellite images run at their smallest scale."""

import pytest

from veracity.recipe import Scale
from veracity_papers.data import files
from veracity_papers.recipes.gef_agreement_text import gef_agreement_text
from veracity_papers.recipes.texts_and_images import text_sms, text_sst2, vision_eurosat, vision_eurosat_resnet

pytest.importorskip("transformers")


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
