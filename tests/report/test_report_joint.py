from __future__ import annotations

import pandas as pd

from veracity.report.html import tables_page


def test_links_and_tables_stand_on_one_page_and_everything_typed_is_escaped() -> None:
    table = pd.DataFrame({"explainer": ["<b>mine</b>"], "value": [0.12345], "published": [float("nan")], "undefined": [3]})
    page = tables_page("<script>", {"one & two": "a/report.html"}, {"adult: <mlp>": table})
    assert "<script>" not in page
    assert "<b>mine" not in page
    assert '<a href="a/report.html">one &amp; two</a>' in page
    assert "<td>0.123</td><td></td><td>3</td>" in page
    assert page.startswith("<!DOCTYPE html>")
