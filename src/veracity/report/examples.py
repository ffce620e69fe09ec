"""The page of an example check: one table per test, with what the test asks."""

from __future__ import annotations

from veracity.report.html import cells, template
from veracity.studies.example_check import SHOWN, ExampleResult

TITLE = "Do explanations by example name the examples that matter?"


def render_examples(study: ExampleResult) -> str:
    """Every test with its definition and its table as one HTML page."""
    table = study.table()
    tests = [(about, cells(table.loc[table["test"] == about["name"], SHOWN])) for about in study.tests]
    return template("examples.html.j2").render(title=study.title or TITLE, tests=tests, failed=cells(study.failures()))
