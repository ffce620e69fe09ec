from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from small import labelled_series, small_net
from veracity.cli.audit_file import load_weights, model, read
from veracity.core.errors import VeracityError
from veracity.inputs import Boxes, RelevantFeatures


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(VeracityError, match="There is no audit file"):
        read(tmp_path / "none.toml")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("seed = 1", "needs 'data'"),
        ('data = "small:labelled_series"', "needs 'models'"),
        ('data = "small"\n[models.a]\nbuild = "small:small_net"', "'small' must have the form module:name"),
        ('data = "small:labelled_series"\nmodels = {a = 1}', r"\[models.a\] must be a table"),
        ('data = "small:labelled_series"\n[models.a]\nweights = "w"', r"\[models.a\] needs build"),
        ('data = "small:labelled_series"\n[models.a]\nbuild = "small:labelled_series"', "has the type tuple, which no adapter takes"),
        ('data = "small:labelled_series"\n[models.a]\nbuilt = "small:small_net"', "Did you mean 'build'"),
        ('data = "small:labelled_series"\nseed = true\n[models.a]\nbuild = "small:small_net"', "'seed' must be a whole number, not True"),
    ],
)
def test_what_is_missing_or_wrong_is_one_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    (tmp_path / "audit.toml").write_text(text)
    with pytest.raises(VeracityError, match=sentence):
        read(tmp_path / "audit.toml")


def test_settings_reach_the_builder_and_an_object_is_taken_as_it_is(tmp_path: Path) -> None:
    built = model("a", {"build": "small:small_net", "settings": {"channels": 2}}, tmp_path)
    assert isinstance(built, nn.Sequential)
    assert built[0].in_channels == 2


def test_weights_in_every_shape(tmp_path: Path) -> None:
    net, other = small_net(seed=1), small_net(seed=2)
    save_file(net.state_dict(), tmp_path / "a.safetensors")
    torch.save({"state_dict": net.state_dict(), "epoch": 3}, tmp_path / "b.pt")
    for name in ("a.safetensors", "b.pt"):
        target = small_net(seed=2)
        load_weights("net", target, tmp_path / name)
        assert torch.equal(target[0].weight, net[0].weight)
        assert not torch.equal(target[0].weight, other[0].weight)
    (tmp_path / "c.safetensors").write_bytes(b"junk")
    with pytest.raises(VeracityError, match="is not a readable weights file"):
        load_weights("net", net, tmp_path / "c.safetensors")
    save_file(small_net(channels=2).state_dict(), tmp_path / "d.safetensors")
    with pytest.raises(VeracityError, match="do not fit model 'net'"):
        load_weights("net", net, tmp_path / "d.safetensors")


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (
            'walk = {name = "monte_carlo", draws = "5"}',
            "The setting 'draws' of walk 'monte_carlo' must be a whole number of at least 1, not '5'",
        ),
        ('target = {name = "class", index = "a"}', "The setting 'index' of target 'class' must be a whole number"),
        ('explainers = [{name = "lime", kernel_width = "a"}]', "The setting 'kernel_width' of explainer 'lime' must be a positive number"),
    ],
)
def test_settings_of_the_wrong_kind_are_named(tmp_path: Path, line: str, sentence: str) -> None:
    given = 'explainers = ["saliency"]\n' if "explainers" not in line else ""
    text = f'data = "small:labelled_series"\n{given}symmetry = {{name = "cyclic_shift", axes = [-1]}}\n{line}\n'
    (tmp_path / "audit.toml").write_text(text + '[models.a]\nbuild = "small:small_net"\n')
    with pytest.raises(VeracityError, match=sentence):
        read(tmp_path / "audit.toml")[0].prepare()


def test_failing_code_of_the_user_is_told_in_its_own_words(tmp_path: Path) -> None:
    with pytest.raises(VeracityError, match=r"'small:small_net' failed with TypeError: .*chanels"):
        model("a", {"build": "small:small_net", "settings": {"chanels": 2}}, tmp_path)
    (tmp_path / "broken.py").write_text("def (")
    (tmp_path / "audit.toml").write_text('data = "broken:data"\n[models.a]\nbuild = "small:small_net"\n')
    with pytest.raises(VeracityError, match="Cannot import 'broken'"):
        read(tmp_path / "audit.toml")
    with pytest.raises(VeracityError, match="There is no audit file"):
        read(tmp_path)
    (tmp_path / "audit.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(VeracityError, match="is not valid TOML"):
        read(tmp_path / "audit.toml")
    (tmp_path / "w.pt").write_text("plain text")
    with pytest.raises(VeracityError, match=r"w\.pt"):
        load_weights("net", small_net(), tmp_path / "w.pt")


def test_scores_may_be_a_list_or_a_table_of_labels(tmp_path: Path) -> None:
    start = 'data = "small:labelled_series"\ncompanions = false\n[models.a]\nbuild = "small:small_net"\n'
    wide = '[scores.wide]\nname = "worst_loss"\nradius = 0.5\nwalk = {name = "genetic", population = 10, elites = 2}\n'
    (tmp_path / "audit.toml").write_text(f'{start}[scores.near]\nname = "worst_loss"\n{wide}')
    audit, _ = read(tmp_path / "audit.toml")
    assert list(audit.scores) == ["near", "wide"]
    assert not audit.companions


def test_the_explainers_of_the_page_are_read(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "command-line.md").read_text(encoding="utf-8")
    _, listed, labelled = re.findall(r"```toml\n(.*?)```", page, flags=re.S)
    found = []
    for number, explainers in enumerate((listed, labelled)):
        file = tmp_path / f"{number}.toml"
        file.write_text(f'data = "small:labelled_series"\nscores = ["insertion"]\n{explainers}\n[models.net]\nbuild = "small:small_net"\n')
        found.append(read(file)[0].prepare().problem.explainers)
    assert found[0]["top_k"].k == 5
    assert found[0]["top_k"].inner.name == "integrated_gradients"
    assert found[1]["shap top 5"].inner.samples == 100
    assert "ig top 5" in found[1]


def test_the_truth_is_a_table_of_boxes_or_features(tmp_path: Path) -> None:
    start = 'data = "small:labelled_series"\n'
    models = '[models.a]\nbuild = "small:small_net"\n'

    def truth(value: str) -> object:
        (tmp_path / "audit.toml").write_text(f"{start}truth = {value}\n{models}")
        return read(tmp_path / "audit.toml")[0].truth

    (tmp_path / "boxes.json").write_text("[[[0, 0, 2, 1]], null]")
    boxes, features = truth('{boxes = "boxes.json"}'), truth('{features = ["age", 3]}')
    assert isinstance(boxes, Boxes)
    assert boxes.boxes == [[[0, 0, 2, 1]], None]
    assert isinstance(features, RelevantFeatures)
    assert features.features == ["age", 3]
    (tmp_path / "bad.json").write_text("[1,")
    for value, sentence in (
        ('{boxes = "none.json"}', r"There is no file .*none\.json with the ground truth"),
        ('{boxes = "bad.json"}', r"bad\.json is not a readable JSON file"),
        ('{box = "boxes.json"}', "Unknown key in truth: 'box'. Did you mean 'boxes'"),
        ("{boxes = 3}", "In truth, 'boxes' must be a list or text, not 3"),
        ("{}", "The truth as a table has one key"),
        ('{boxes = [], features = ["age"]}', "The truth as a table has one key"),
        ("3", "'truth' must be text or a table, not 3"),
    ):
        with pytest.raises(VeracityError, match=sentence) as error:
            truth(value)
        assert "\n" not in str(error.value)


def test_the_truth_is_a_file_of_masks(tmp_path: Path) -> None:
    inputs, _ = labelled_series()
    start = 'data = "small:labelled_series"\nexplainers = ["gradient"]\nscores = ["auc"]\ncontrols = false\n'
    models = '[models.a]\nbuild = "small:small_net"\n'
    masks = (np.arange(inputs[0].numel()) < 3)[None].repeat(len(inputs), 0).reshape(len(inputs), -1)
    np.save(tmp_path / "masks.npy", masks)
    (tmp_path / "audit.toml").write_text(f'{start}truth = "masks.npy"\n{models}')
    found = read(tmp_path / "audit.toml")[0]
    assert found.masks is not None
    assert found.masks.reshape(len(inputs), -1).tolist() == masks.tolist()
    for name, sentence in (("none.npy", "There is no file .*none.npy with the ground truth"), ("bad.npy", "is not a readable .npy file")):
        (tmp_path / "bad.npy").write_bytes(b"junk")
        (tmp_path / "audit.toml").write_text(f'{start}truth = "{name}"\n{models}')
        with pytest.raises(VeracityError, match=sentence):
            read(tmp_path / "audit.toml")
    np.save(tmp_path / "objects.npy", np.array([None, {}], dtype=object), allow_pickle=True)
    (tmp_path / "audit.toml").write_text(f'{start}truth = "objects.npy"\n{models}')
    with pytest.raises(VeracityError, match=r"is not a readable \.npy file"):
        read(tmp_path / "audit.toml")


def read_with_csv(folder: Path, table: str, data: str) -> Any:
    (folder / "rows.csv").write_text(table)
    (folder / "audit.toml").write_text(f'data = {data}\n[models.a]\nbuild = "small:small_net"')
    return read(folder / "audit.toml")[0]


def test_texts_and_labels_come_from_columns_of_a_csv_file(tmp_path: Path) -> None:
    audit = read_with_csv(tmp_path, "words,score\nNA,1\nso so,0\n", '{file = "rows.csv", text = "words", label = "score"}')
    assert (audit.inputs, audit.targets) == (["NA", "so so"], [1, 0])


def test_without_a_column_of_texts_a_csv_file_is_a_table(tmp_path: Path) -> None:
    audit = read_with_csv(tmp_path, "age,died,dose\n40,no,0.5\n50,yes,1.5\n", '{file = "rows.csv", label = "died"}')
    assert audit.inputs.to_dict("list") == {"age": [40, 50], "dose": [0.5, 1.5]}
    assert audit.targets == ["no", "yes"]
    assert read_with_csv(tmp_path, "age\n40\n", '{file = "rows.csv"}').targets is None


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ('"rows.csv"', "Say which columns of rows.csv to use: {file = "),
        ('{text = "words"}', "needs 'file'"),
        ('{file = "none.csv"}', "none.csv is not a readable CSV file"),
        ('{file = "rows.csv", label = "scor"}', "Unknown column of rows.csv 'scor'. Did you mean 'score'"),
        ('{file = "rows.csv", column = "score"}', "Unknown key in data: 'column'"),
        ('{file = "rows.csv", text = "words"}', "Row 2 of rows.csv has no text in the column 'words'"),
        ('{file = "rows.csv", text = "more", label = "score"}', "Row 1 of rows.csv has no label in the column 'score'"),
    ],
)
def test_what_is_wrong_with_a_csv_file_is_one_sentence(tmp_path: Path, data: str, sentence: str) -> None:
    with pytest.raises(VeracityError, match=sentence):
        read_with_csv(tmp_path, "words,more,score\ngood,a,\n,b,0\n", data)


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        ("t,l\nGreat, really,1\n", "have more fields than its first line has names"),
        ("t,l,l\na,1,0\n", "two columns of the name 'l'"),
        ("t;l\na;1\n", "must be separated by commas"),
        (",l\n0,1\n", "Column 1 of rows.csv has no name"),
        ("t,l\n", "has no rows"),
    ],
)
def test_a_csv_file_that_would_be_misread_is_refused(tmp_path: Path, table: str, sentence: str) -> None:
    with pytest.raises(VeracityError, match=sentence):
        read_with_csv(tmp_path, table, '{file = "rows.csv", label = "l"}')


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "audit.toml").write_text('data = "small:labelled_series"\n[models.a]\nbuild = "classifer"')
    with pytest.raises(VeracityError, match=r"there is no folder .*classifer', and build is not of the form module:function"):
        read(tmp_path / "audit.toml")
