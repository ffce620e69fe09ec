"""The bands that the orbit page computes by itself are those of OrbitResult.aggregate."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from veracity.orbits.statistics import mean_along

WEB = Path(__file__).parents[2] / "web"
TSC = WEB / "node_modules" / ".bin" / "tsc"
SCRIPT = """
const { aggregate } = require("./compute.js");
const { values, elements, samples, low, high } = JSON.parse(require("fs").readFileSync(0, "utf8"));
const cut = (one, otherwise) => (one === null ? otherwise : one);
const bounds = [cut(low, -Infinity), cut(high, Infinity)];
const found = aggregate(Float32Array.from(values.map((one) => cut(one, NaN))), elements, Int32Array.from(samples), bounds, 0.95);
const list = (one) => Array.from(one, (value) => (Number.isNaN(value) ? null : value));
console.log(JSON.stringify({ value: list(found.mean), low: list(found.low), high: list(found.high) }));
"""


@pytest.mark.skipif(not TSC.exists() or shutil.which("node") is None, reason="needs node and the packages of web/")
def test_the_page_computes_the_bands_of_the_package(tmp_path: Path) -> None:
    sources = [WEB / "src" / "orbit" / name for name in ("compute.ts", "student.ts")]
    subprocess.run(
        [TSC, *sources, "--outDir", tmp_path, "--module", "commonjs", "--target", "es2022", "--noCheck", "--skipLibCheck"], check=True
    )
    (tmp_path / "bands.js").write_text(SCRIPT)
    numbers = np.random.default_rng(0)
    for samples, low, high in ((12, 0.0, 1.0), (300, None, None), (2000, 0.0, None), (1, 0.0, 1.0)):
        values = (numbers.beta(5.0, 0.4, (samples, 4)) if high else numbers.gamma(0.5, size=(samples, 4))).astype(np.float32)
        values[1::5, 1], values[:, 2] = np.nan, 0.25
        given = {
            "values": [None if np.isnan(one) else float(one) for one in values.ravel()],
            "elements": 4,
            "samples": list(range(samples)),
        }
        ran = subprocess.run(
            ["node", "bands.js"],
            input=json.dumps({**given, "low": low, "high": high}),
            cwd=tmp_path,
            text=True,
            capture_output=True,
            check=True,
        )
        page = {name: np.array(column, dtype=np.float64) for name, column in json.loads(ran.stdout).items()}
        bounds = (-np.inf if low is None else low, np.inf if high is None else high)
        for name, column in mean_along(values, 0.95, bounds)[["value", "low", "high"]].items():
            np.testing.assert_allclose(page[str(name)], column, rtol=1e-5, err_msg=f"{name} of {samples} samples")
