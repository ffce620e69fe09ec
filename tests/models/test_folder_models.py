"""Folders with a text classifier as models: as the pipeline does, and one sentence for every folder that holds none."""

import json
import shutil
import sys
from contextlib import nullcontext
from pathlib import Path

import pandas as pd
import pytest
import torch
from safetensors.torch import load_file, save_file

from text_models import TEXTS, text_model, tokenizer
from veracity import Audit
from veracity.cli import audit_file
from veracity.core import fingerprint
from veracity.core.errors import InputError, Note, SpecError
from veracity.models import FolderModel, as_model

transformers = pytest.importorskip("transformers")
SOME = {"explainers": ["integrated_gradients"], "scores": ["insertion"], "controls": False}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A classifier with its tokenizer, as save_pretrained writes them."""
    text_model().save_pretrained(tmp_path / "clf")
    tokenizer().save_pretrained(tmp_path / "clf")
    return tmp_path / "clf"


@pytest.mark.parametrize("kind", [str, Path])
def test_a_folder_is_audited_as_its_pipeline(folder, kind, tmp_path):
    pipe = transformers.pipeline("text-classification", model=text_model(), tokenizer=tokenizer())
    ours, theirs = (Audit(models=model, inputs=TEXTS, **SOME).run(tmp_path / name) for name, model in (("a", kind(folder)), ("b", pipe)))
    maps, wanted = (result.explanations("model", "integrated_gradients")[0] for result in (ours, theirs))
    assert torch.allclose(torch.as_tensor(maps), torch.as_tensor(wanted), atol=1e-6)
    assert ours.table()["value"].tolist() == pytest.approx(theirs.table()["value"].tolist(), abs=1e-6)


def test_the_key_does_not_depend_on_the_place(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "moved")
    one, other = as_model("a", folder), as_model("b", str(tmp_path / "moved"))
    assert isinstance(one, FolderModel)
    assert not one.model.training
    assert one.title == "DistilBertForSequenceClassification"
    assert fingerprint.of_model(one) == fingerprint.of_model(other)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), text_model().parameters(), strict=True))


def test_loading_shows_no_bars(folder, capfd):
    capfd.readouterr()
    as_model("a", folder)
    assert "Loading weights" not in capfd.readouterr().err


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (["a fine film", None], "Text 1 is missing: fill it in, or leave it out."),
        (["a fine film", float("nan")], "Text 1 is missing"),
        ([1, 2], "Text 0 is 1, of type int: every text must be a string."),
    ],
)
def test_what_is_no_text_is_told_apart(folder, given, sentence):
    with pytest.raises(InputError, match=sentence):
        Audit(models=folder, inputs=given, **SOME).prepare()


def test_an_audit_file_says_how_texts_are_read(folder, tmp_path):
    long = "a very fine film with no dull heart at all"
    (tmp_path / "rows.csv").write_text(f"words\ndull\n{long}\n")
    start, models = 'data = {file = "rows.csv", text = "words", ', f'}}\n[models.a]\nbuild = "{folder}"\n'
    for how, units, said in (("length = 6, truncate = true", 4, "Text 1 has 12 tokens"), ('unit = "word"', 10, None)):
        (tmp_path / "audit.toml").write_text(start + how + models)
        inputs = audit_file.read(tmp_path / "audit.toml")[0].inputs
        with nullcontext() if said is None else pytest.warns(Note, match=said):
            assert inputs.shape == (units,)
    (tmp_path / "audit.toml").write_text(start + 'label = "words"' + models)
    assert audit_file.read(tmp_path / "audit.toml")[0].inputs == ["dull", long]
    (tmp_path / "audit.toml").write_text(start + "length = 6" + models)
    with pytest.raises(InputError, match=r"Text 1 has 12 tokens, and the model takes 6: .* in an audit file, truncate = true\."):
        audit_file.read(tmp_path / "audit.toml")[0].prepare()
    (tmp_path / "audit.toml").write_text('data = {file = "rows.csv", truncate = true' + models)
    with pytest.raises(SpecError, match="'truncate' in data says how texts are read: name their column too"):
        audit_file.read(tmp_path / "audit.toml")


def test_a_table_of_texts_is_told_to_pass_its_columns(folder):
    frame = pd.DataFrame({"text": TEXTS, "label": [0] * len(TEXTS)})
    with pytest.raises(InputError, match=r"reads texts, .* inputs=list\(frame\['text'\]\)"):
        Audit(models=folder, inputs=frame, **SOME).prepare()


def test_an_audit_file_names_the_folder(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "films_of_folder.py").write_text(f"def texts():\n    return {TEXTS!r}\n")
    file = tmp_path / "audit.toml"
    for build in ("clf", "./clf", folder.as_posix()):
        file.write_text(f'data = "films_of_folder:texts"\nexplainers = ["gradient"]\n[models.clf]\nbuild = "{build}"\n')
        audit, _ = audit_file.read(file)
        assert isinstance(audit.models["clf"], FolderModel)
        assert audit.data.words(0) == ["a", "fine", "film"]
    file.write_text('data = "films_of_folder:texts"\n[models.clf]\nbuild = "models/nope"\n')
    with pytest.raises(InputError, match=r"There is no folder '.*models.nope'"):
        audit_file.read(file)


def change(folder: Path, **settings: object) -> None:
    """Change entries of config.json; None removes one."""
    config = {**json.loads((folder / "config.json").read_text()), **settings}
    (folder / "config.json").write_text(json.dumps({name: value for name, value in config.items() if value is not None}))


def without_head(folder: Path) -> None:
    file = folder / "model.safetensors"
    kept = {name: value for name, value in load_file(file).items() if not name.startswith("classifier")}
    save_file(kept, file, metadata={"format": "pt"})


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (shutil.rmtree, r"^There is no folder '.*clf': pass the path of one on disk"),
        (lambda at: (at / "config.json").unlink(), r"has no config\.json: pass a folder that model\.save_pretrained wrote"),
        (lambda at: (at / "config.json").write_text("no"), r"The config\.json in '.*clf' cannot be read"),
        (lambda at: change(at, architectures=["DistilBertModel"]), r"holds DistilBertModel, and a folder must hold a text classifier"),
        (lambda at: change(at, architectures=None), "holds an unnamed class, and a folder must hold a text classifier"),
        (lambda at: (at / "model.safetensors").unlink(), "has no weights in safetensors"),
        (lambda at: (at / "model.safetensors").write_bytes(b"no"), r"cannot be loaded as a DistilBertForSequenceClassification \("),
        (without_head, r"lack 2 parameters of a DistilBertForSequenceClassification, such as classifier\.bias, which would be random"),
        (lambda at: (at / "tokenizer.json").unlink(), r"has no tokenizer: write it there with tokenizer\.save_pretrained"),
    ],
)
def test_a_folder_that_holds_no_classifier_is_told_in_a_sentence(folder, damage, told):
    damage(folder)
    with pytest.raises(InputError, match=told) as caught:
        _ = Audit(models=folder, inputs=TEXTS, **SOME).modules
    assert "\n" not in str(caught.value)


def test_code_in_a_folder_never_runs(folder, tmp_path):
    kind = "MineForSequenceClassification"
    auto = {"AutoConfig": "mine.Config", "AutoModelForSequenceClassification": f"mine.{kind}"}
    change(folder, architectures=[kind], model_type="mine", auto_map=auto)
    (folder / "mine.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    with pytest.raises(InputError, match=f"cannot be loaded as a {kind}"):
        as_model("mine", folder)
    assert not (tmp_path / "ran").exists()


def test_a_file_is_no_folder(folder):
    with pytest.raises(InputError, match=r"is a file, and no model by itself"):
        as_model("a", folder / "model.safetensors")
    with pytest.raises(InputError, match="There is no folder"):
        as_model("a", "distilbert-base\0uncased")


def test_a_missing_library_is_told_with_its_extra(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(SpecError, match=r"needs transformers, which is not installed: pip install 'veracity\[text\]'"):
        as_model("a", folder)
