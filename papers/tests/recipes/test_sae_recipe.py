"""The recipe of sparse autoencoders at its smallest scale, and what it says of missing files."""

from __future__ import annotations

from pathlib import Path

import pytest

from veracity.core.errors import InputError
from veracity.recipe import Scale
from veracity_papers.data import files
from veracity_papers.recipes.faithfulness_sae import CONTROLS, control_of, faithfulness_sae, found_encoders
from veracity_papers.zoo.language_models import CausalLM

NEEDED = ("weights/villes_lm_sae/villes.txt", "weights/tinystories260k/stories260K.bin")


@pytest.mark.skipif(any(files.locate(name) is None for name in NEEDED), reason="needs the weights of small language models")
@pytest.mark.filterwarnings("ignore::veracity.core.errors.Note")
def test_smoke(tmp_path: Path) -> None:
    result = faithfulness_sae.assemble(tmp_path, Scale.SMOKE).run(tmp_path / "run", progress=False)
    assert (result.table()["cells_failed"] == 0).all()
    summary = result.summary
    rows = summary[summary["fast_gef"].notna()]
    assert len(rows) == 3
    for row in rows.to_dict("records"):
        samples = result.results[row["audit"]].samples("fast_gef").pivot(index="sample", columns="explainer", values="value")
        for control in CONTROLS:
            value, low, high = (row[f"minus {control.split()[0]}{end}"] for end in ("", " low", " high"))
            paired = samples[row["explainer"]] - samples[control_of(row["explainer"], control, list(samples.columns))]
            assert value == pytest.approx(paired.mean(), abs=1e-9)  # over the samples that have both
            assert low - 1e-12 <= value <= high + 1e-12
            assert -1 <= row[control] <= 1
    assert rows["explained_variance"].between(0.5, 1.0).all()
    page = Path(result.save_report(tmp_path / "run" / "report.html")).read_text()
    assert "Minus random" in page


def test_a_shared_control_is_that_of_the_first_width() -> None:
    known = ["layer 1, 256 features", "layer 1, 256 features: raw activations", "layer 10, 256 features: raw activations"]
    assert control_of("layer 1, 1024 features", "raw activations", known) == known[1]


def test_missing_autoencoders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VERACITY_DATA", str(tmp_path))
    with pytest.raises(InputError, match="no autoencoders of smollm2 under weights/smollm2_sae: train them with"):
        found_encoders(CausalLM("smollm2", None, None, ("lm.model.layers.0",)))
