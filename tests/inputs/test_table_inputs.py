"""Tables: from DataFrames to numbers and back, models that were fitted on DataFrames, and mistakes in one sentence."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from torch import nn

from veracity.core.errors import InputError
from veracity.inputs import TableInputs
from veracity.models import as_model

RANDOM = np.random.default_rng(0)
TABLE = pd.DataFrame(
    {
        "age": RANDOM.normal(40, 10, 60),
        "hours": RANDOM.integers(10, 60, 60),
        "job": RANDOM.choice(["clerk", "cook", "pilot"], 60),
        "owner": RANDOM.random(60) < 0.5,
    }
)
LABELS = ((TABLE["age"] > 40) ^ (TABLE["job"] == "cook")).astype(int).to_numpy()
CODED = TABLE.assign(job=TABLE["job"].astype("category"))


def pipeline() -> Any:
    encode = make_column_transformer((OneHotEncoder(), ["job"]), (StandardScaler(), ["age", "hours"]), remainder="passthrough")
    return make_pipeline(encode, RandomForestClassifier(5, random_state=0)).fit(TABLE, LABELS)


def xgboost() -> Any:
    return pytest.importorskip("xgboost").XGBClassifier(n_estimators=3, enable_categorical=True).fit(CODED, LABELS)


def lightgbm() -> Any:
    return pytest.importorskip("lightgbm").LGBMClassifier(n_estimators=3, verbose=-1).fit(CODED, LABELS)


def test_numbers_and_back() -> None:
    """Types, levels and values survive; whole numbers come back as floats."""
    coded = TableInputs(CODED.astype({"age": "float32"}))
    back = coded.columns.decode(coded.values.numpy())
    assert back["job"].dtype == CODED["job"].dtype
    assert back["owner"].dtype == bool
    assert back["age"].dtype == np.float32
    pd.testing.assert_frame_equal(back, CODED.astype({"hours": "float64", "age": "float32"}))
    pd.testing.assert_frame_equal(TableInputs(TABLE).columns.decode(TableInputs(TABLE).values.numpy()), TABLE.astype({"hours": "float64"}))


@pytest.mark.parametrize(("make", "frame"), [(pipeline, TABLE), (xgboost, CODED), (lightgbm, CODED)])
def test_a_model_fitted_on_a_table_answers_as_it_does_by_itself(make: Any, frame: pd.DataFrame) -> None:
    model = make()
    shuffled = frame[:20][["owner", "job", "hours", "age"]]
    inputs = TableInputs(shuffled, background=frame)
    answer = inputs.adapt(as_model("m", model))(inputs.take(torch.arange(20)).values)
    np.testing.assert_allclose(answer.numpy(), model.predict_proba(frame[:20]), atol=1e-7)


@pytest.mark.parametrize("make", [lambda: xgboost().get_booster(), lambda: lightgbm().booster_])
def test_boosters_get_a_table(make: Any) -> None:
    booster = make()
    inputs = TableInputs(CODED[:20], background=CODED)
    answer = inputs.adapt(as_model("m", booster))(inputs.values)
    expected = booster.predict(CODED[:20]) if not hasattr(booster, "inplace_predict") else booster.inplace_predict(CODED[:20])
    np.testing.assert_allclose(answer.numpy(), expected, atol=1e-7)


def test_a_function_that_looks_up_columns_gets_a_table() -> None:
    numbers = TABLE[["age", "hours"]]
    inputs = TableInputs(numbers)
    by_name = inputs.adapt(as_model("f", lambda frame: np.asarray(frame["age"])))
    np.testing.assert_allclose(by_name(inputs.values).numpy(), TABLE["age"])
    plain = inputs.adapt(as_model("f", lambda array: np.asarray(array)[:, 0]))
    np.testing.assert_allclose(plain(inputs.values).numpy(), TABLE["age"])


def test_a_model_fitted_on_arrays_gets_arrays() -> None:
    numbers = TABLE[["age", "hours"]]
    lgbm = pytest.importorskip("lightgbm").LGBMClassifier(n_estimators=2, verbose=-1)
    for model in (LogisticRegression(), lgbm):
        fitted = model.fit(numbers.to_numpy(), LABELS)
        answer = TableInputs(numbers).adapt(as_model("m", fitted))(TableInputs(numbers).values)
        np.testing.assert_allclose(answer.numpy(), fitted.predict_proba(numbers.to_numpy()), atol=1e-7)


def test_a_network_gets_the_type_of_its_weights() -> None:
    inputs = TableInputs(TABLE[["age", "hours"]])
    assert inputs.adapt(nn.Linear(2, 3))(inputs.values).shape == (60, 3)


def test_one_hot_columns_are_one_feature_if_the_user_says_so() -> None:
    names = ["age", "job_clerk", "job_cook", "capital_gain"]
    values = np.array([[30.0, 1, 0, 5], [40.0, 0, 1, 7], [50.0, 1, 0, 9]])
    assert TableInputs.of_array(values, names).features.names == tuple(names)
    for groups in ("_", {"job": ["job_clerk", "job_cook"]}, {"job": [1, 2]}):
        found = TableInputs.of_array(values, names, groups).features
        assert found.names == ("age", "job", "capital_gain")
        assert found.groups.tolist() == [0, 1, 1, 2]
        assert found.centre().tolist() == [40.0, 1.0, 0.0, 7.0]
        assert found.categorical.tolist() == [False, True, True, False]


def test_background_says_what_is_usual() -> None:
    inputs = TableInputs(TABLE[:3], background=TABLE)
    assert inputs.features.centre()[0] == pytest.approx(TABLE["age"].mean())
    assert inputs.features.scales[0] == pytest.approx(TABLE["age"].std(ddof=0))
    level = inputs.categories["job"][int(inputs.features.centre()[2])]
    assert level == TABLE["job"].mode()[0]
    assert not inputs.features.own
    assert TableInputs(TABLE[:3]).features.own


def test_content_decides_the_hash() -> None:
    assert TableInputs(TABLE).fingerprint() == TableInputs(TABLE.copy()).fingerprint()
    assert TableInputs(TABLE).fingerprint() != TableInputs(TABLE.rename(columns={"age": "years"})).fingerprint()


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (
            lambda: TableInputs(TABLE.assign(hours=TABLE["hours"].astype(float).where(TABLE["hours"] > 20))),
            "Column 'hours' of the table has .* missing",
        ),
        (lambda: TableInputs(TABLE.assign(age=np.inf)), "Column 'age' has infinite values"),
        (lambda: TableInputs(TABLE[:0]), "at least one row"),
        (lambda: TableInputs(TABLE.to_numpy()), "must be a pandas DataFrame .* not ndarray"),
        (lambda: TableInputs(pd.concat([TABLE, TABLE[["age"]]], axis=1)), "Two columns of the table are called 'age'"),
        (lambda: TableInputs(TABLE.assign(day=pd.Timestamp("2020-01-01"))), "Column 'day' holds dates"),
        (
            lambda: TableInputs(TABLE.assign(job="smith"), background=TABLE).values,
            "'job' has the value 'smith', which is not among its levels clerk, cook",
        ),
        (lambda: TableInputs(TABLE, background=TABLE[["age"]]), "The background lacks the column 'hours'"),
        (lambda: TableInputs(TABLE, levels={"jobs": ["cook"]}), "names the column 'jobs', which the table does not have"),
        (lambda: TableInputs(TABLE, groups={"work": ["job", "pay"]}), "The group 'work' has the column 'pay'"),
        (lambda: TableInputs(TABLE, groups={"a": ["job"], "b": ["job"]}), "'job' is in two groups, 'a' and 'b'"),
        (lambda: TableInputs.of_array(np.zeros(3)), r"an array of shape \(rows, columns\)"),
        (lambda: TableInputs.of_array(np.zeros((2, 3)), ["a", "b"]), "there are 2 names"),
        (lambda: TableInputs(TABLE).encode(TABLE.assign(age="old")), "Column 'age' must hold numbers, not 'old'"),
        (lambda: TableInputs(TABLE[["age"]]).adapt(as_model("m", pipeline())), "RandomForestClassifier was fitted on the column 'hours'"),
        (
            lambda: TableInputs(TABLE.assign(pay=1.0)).adapt(as_model("m", pipeline())),
            "has the column 'pay', which RandomForestClassifier was not",
        ),
        (lambda: TableInputs(TABLE).adapt(nn.Linear(4, 2)), "Column 'job' holds categories, and this model takes numbers"),
        (lambda: as_model("m", RandomForestClassifier()), "RandomForestClassifier is not fitted: call its fit"),
    ],
)
def test_mistakes_are_told_in_one_sentence(make: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence) as told:
        make()
    assert str(told.value).count("\n") == 0
    assert len(str(told.value)) < 300
