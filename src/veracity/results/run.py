"""What a run folder says: tables with intervals, derived from stored measurements without a model."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import torch
from numpy.typing import NDArray
from torch import Tensor

from veracity.core.errors import InputError, SpecError, StoreError, VeracityError, unknown
from veracity.core.explainers import Frame
from veracity.core.failures import failures_of
from veracity.core.features import group_sums
from veracity.core.measures import Direction
from veracity.core.scores import Measured, PooledScore, SampleNotes, Score
from veracity.core.walks import Sampling
from veracity.engine.store import RunFolder
from veracity.engine.store.folder import NUMBERS
from veracity.engine.store.manifest import Kind, as_advice
from veracity.engine.store.records import LARGEST
from veracity.engine.store.state import Progress, Stage, State, row_state
from veracity.results import words
from veracity.results.differences import Differences
from veracity.results.over_random import over_random
from veracity.results.pages import figure_of, framed_page, save_page
from veracity.results.quadrants import quadrants
from veracity.results.rows import COLUMNS, Row, with_adjusted
from veracity.results.series import (
    Arrays,
    Held,
    Near,
    Part,
    Series,
    WorstPair,
    censored,
    dense,
    derive,
    draws_of,
    evaluations,
    gather,
    mean,
    null_of,
    summarise,
    undefined,
    unpack_pairs,
)
from veracity.results.subgroups import subgroup_table
from veracity.results.tracking import Logged, log, spec_parameters
from veracity.results.visualised import Visualised, visualised
from veracity.scores.common import Absent, as_read
from veracity.statistics import means, medians, pooled
from veracity.statistics.differences import crossed_differences, mean_differences

Array = NDArray[np.float64]
COUNTED = ("censored", "infeasible", "stuck", "stiff")
"""The remarks on samples that are counted."""
ADVICE = "advice.json"
NOTHING = Arrays(
    samples=np.zeros(0, np.int64),
    values=np.zeros((0, 0)),
    counts=np.zeros(0, np.int64),
    drawn=0,
    per_sample=np.zeros(0),
    measured=Measured({"value": np.zeros((0, 0, 1))}),
    no_response=np.zeros(0, dtype=np.bool_),
    errors=None,
    remarks={},
)
"""What is known of a score before anything is measured."""
HELD = 1 << 29
"""How many bytes of measurements are held at once; others are read again when they are asked for."""
NEAR = 1 << 26
"""How many bytes of the numbers of single samples and of those beside them are held at once."""
READERS = 3
"""How many threads read cells."""
MOST_ROWS = 1 << 27
"""The most measurements of one score of one subject that are read."""
DIFFERENCE = ["difference", "low", "high", "n", "differs", "unseen", "bound", "status"]
STRENGTHS = ["model", "space", "sigma", "low", "high", "agreement", "chance", "tolerance", "levels_off", "independent", "draws"]
FAILURES = ["model", "explainer", "score", "error", "cells_failed", "cells", "samples_failed", "samples"]
FOLDS = ["model", "fold", "held_out", "trained_on", "samples", "accuracy", "seconds"]


class Result:
    """A run, read from its folder."""

    def __init__(self, path: str | Path) -> None:
        self.path = str(path)
        self.folder = RunFolder(self.path)
        self.manifest: dict[str, Any] = self.folder.manifest()
        self._known: dict[tuple[str, str, str], pooled.PooledEstimate] = {}
        self._sums: dict[tuple[str, str, str, str], float] = {}
        self._held = Held[Arrays](HELD)
        self.near = Held[Near](NEAR)
        """The numbers of the samples that were asked for one by one, and of those in the same cells."""
        self.paired: dict[str, frozenset[int]] = {}
        """By the key of a cell whose stored pairs were read: of which samples they are."""

    def __str__(self) -> str:
        """The table's main columns as text, arrows for the better direction; then failures, broken assumptions and ends of paths."""
        lines = [] if self.progress.stage is Stage.DONE else [self.progress.sentence(errors=False)]
        lines += [words.as_text(self.rows)]
        lines += words.units_lines(self.manifest["data"])
        lines += [str(one) for one in failures_of(self.failures().to_dict("records"))]
        lines += self.assumptions() + words.strength_lines(self.manifest.get("calibrations") or ())
        lines += words.strict_lines(self.manifest.get("strict") or ())
        return "\n".join(lines + [text for score in self.manifest["scores"] for text in self.caveats(score)])

    def _repr_html_(self) -> str:
        """The report in short, for a notebook."""
        return framed_page(Kind.AUDIT, self)

    def figure(self, name: str = "ranking", score: str | None = None) -> Any:
        """A figure of the report, such as "ranking" or "boxes": it shows itself in a notebook, and `.save("x.svg")` writes it.

        Of the first score that has it, unless a score is named. `.save` also writes .png, .pdf and .html.
        """
        return figure_of(Kind.AUDIT, self, name, score)

    def caveats(self, score: str) -> list[str]:
        """The caveats of the published figures beside a score, in sentences."""
        mine = [one for one in self.series if one.score == score]
        entries = self.manifest["spec"].get("published", ())
        return words.caveats(entries, score, {one.model for one in mine}, {one.explainer for one in mine})

    def assumptions(self) -> list[str]:
        """What each score assumes of each model, and on how many samples that fails, in sentences."""
        models = list(dict.fromkeys(one.model for one in self.series))
        found = words.assumptions(self, self.manifest["scores"], models)
        return [f"{one.model}: {one.text}" if len(models) > 1 else one.text for one in found]

    @property
    def confidence(self) -> float:
        """The confidence of all intervals."""
        return float(self.manifest["spec"].get("confidence", 0.95))

    @cached_property
    def progress(self) -> Progress:
        """The progress of the run when it was first read: which cells are measured, failed or pending."""
        return self.folder.progress(self.manifest)

    @cached_property
    def units(self) -> NDArray[np.int64] | None:
        """The number of the unit of each sample, such as its patient; None if each sample stands alone."""
        found = self.manifest["data"].get("units")
        return None if found is None else np.array(found["of"], dtype=np.int64)

    @cached_property
    def series(self) -> list[Series]:
        """Every score of every subject."""
        return list(self._read())

    def table(self, by: Any = None) -> pd.DataFrame:
        """One row per model, explainer and score, with intervals, controls and self-agreement.

        Where `bound`, the value is only known to lie at or below what it says; a low end of minus infinity is not known. Where all
        samples have the same value, the interval has no width and `unseen` is the largest share of the population that may
        differ without having been seen. `state` is pending, failed, undefined or done; the value of a pending row is that of the
        cells measured so far. If samples belong to units, such as patients, `units` counts those with a value.

        With `by`, one row per subgroup instead, with intervals that hold together for all groups: one label per sample, {"sex": labels},
        or the name of labels that the audit was given. See `results.subgroups`.
        """
        if by is not None:
            return subgroup_table(self, by)
        table = pd.DataFrame([row.record() for row in self.rows], columns=COLUMNS)
        return table.drop(columns="units") if self.units is None else table.astype({"units": "Int64"})

    @cached_property
    def rows(self) -> list[Row]:
        """The rows of the table; see `Row`."""
        return with_adjusted(list(self.each_row()))

    def each_row(self) -> Iterator[Row]:
        """The rows one by one, each read and derived when it is asked for, and without p-values corrected for the others."""
        shown, series = set(self.manifest["scores"]), {(one.model, one.explainer, one.score): one.sound() for one in self.series}
        return (self._row(whole, series) for whole in self.series if whole.score in shown)

    def _row(self, whole: Series, series: Mapping[tuple[str, str, str], Series]) -> Row:
        """One row, from a series with its failed samples and from all series without theirs."""
        one, score, about = series[whole.model, whole.explainer, whole.score], self.known_score(whole.score), self.manifest["score_specs"]
        estimate = self.estimate(one)
        subject = (one.model, one.explainer, one.score)
        figures = self.manifest["spec"].get("published", ())
        published = [entry["value"] for entry in figures if (entry["model"], entry["explainer"], entry["score"]) == subject]
        null = about[one.score].get("null")
        counts: dict[str, Any] = {what: int(one.remarks[what].sum()) for what in COUNTED if what in one.remarks}
        row = Row(
            model=one.model,
            explainer=one.explainer,
            score=one.score,
            **estimate,
            samples_failed=len(whole.lost),
            self_agreement=self._summed(series.get((one.model, one.explainer, "self_agreement")), one.score),
            random_control=self._summed(series.get((one.model, null_of(one), one.score)), one.score) if one.explainer else math.nan,
            frame=one.frame,
            control=one.control,
            direction=one.direction.value,
            assumption=self.manifest.get("assumptions", {}).get(one.score, ""),
            holds=self._holds(one),
            null=math.nan if null is None else null,
            no_response=int(one.no_response.sum()),
            no_response_draws=int(score.silent_draws(one.measured).sum()) if isinstance(score, SampleNotes) and len(one.samples) else 0,
            **counts,
            evaluations=evaluations(one),
            published=published[-1] if published else math.nan,
            failed=one.failed,
            **standing(one, estimate["value"]),
            **self._beside(one),
            middle="value" if score.pooled else score.centre,
            mark=math.nan if score.mark is None else score.mark,
            pooled=score.pooled,
            in_map_units=self.in_map_units(one.score),
        )
        if not isinstance(score, SampleNotes):
            return row
        return replace(row, outcome=score.outcome({name: getattr(row, name) for name in ("n", "undefined", "undefined_draws", *COUNTED)}))

    def settled(self, score: str) -> pd.DataFrame:
        """The samples of a score, without those of subjects that are pending."""
        every = self._of(score)
        return sample_table([one for one in every if not one.pending] or [replace(one, read=lambda: NOTHING) for one in every[:1]])

    def samples(self, score: str, explainer: str | None = None) -> pd.DataFrame:
        """One row per model, explainer and measured sample; of one explainer if it is named, and only its values are read then."""
        every = self._of(score)
        if explainer is None:
            return sample_table(every)
        chosen = [one for one in every if one.explainer == explainer]
        if not chosen:
            known = ", ".join(f"'{one}'" for one in dict.fromkeys(str(one.explainer) for one in every))
            raise InputError(f"The score '{score}' has no explainer '{explainer}'. Known: {known}.")
        return sample_table(chosen)

    def differences(self, score: str, between: str = "explainers", among: Collection[str] | None = None) -> pd.DataFrame:
        """Paired differences between a model's explainers of one kind (or an explainer's models), with simultaneous intervals.

        `among` names the explainers or models to compare: the intervals are simultaneous over their pairs alone. Controls are compared
        too; `control` marks rows with one, which say how explainers compare with it and rank nobody.

        A difference that is the same for all samples has an interval without width: it is not ranked, and `unseen` is the largest
        share of the population that may differ without having been seen. Of medians, `bound` is "at least" or "at most" where
        censored values leave no more to say, and an end is infinite then.
        """
        if between not in ("explainers", "models"):
            raise InputError(f"Differences are between 'explainers' or 'models', not '{between}'.")
        if between == "explainers" and self.in_map_units(score):
            raise InputError(
                f"The score '{score}' is in the map's own units, so that explainers cannot be compared by it: ask for between='models', or "
                "measure its relative form."
            )
        own, other = ("explainer", "model") if between == "explainers" else ("model", "explainer")
        rows = []
        controls = {one.explainer for one in self._of(score) if one.control}
        chosen = [one for one in self._of(score) if among is None or getattr(one, own) in among]
        for group, frame in dict.fromkeys((getattr(one, other), one.frame) for one in chosen):
            alike = [one for one in chosen if (getattr(one, other), one.frame) == (group, frame) and one.missing == 0]
            values, units = {getattr(one, own): one.per_sample for one in alike}, alike[0].units if alike else None
            if self.pools(score):
                measured = {getattr(one, own): one.measured for one in alike}
                found = pooled.pooled_differences(self.pooled_score(score), measured, self.confidence, units=units)
            elif self._centre(score) == "median":
                below = {getattr(one, own): censored(one) for one in alike}
                found = medians.median_differences(values, below, self.confidence, units=units)
            elif all(not one.sampling.nested and not one.sampling.exhaustive for one in alike):
                plain = self.manifest["score_specs"][score]["reduce"] == "mean"
                tables = {getattr(one, own): one.values if plain else one.per_sample[:, None] for one in alike}
                found = crossed_differences(tables, confidence=self.confidence, units=units)
            else:
                found = mean_differences(values, confidence=self.confidence, units=units)
            for row in found:
                named = {row.first, row.second} if own == "explainer" else {group}
                rows.append({other: group, **asdict(row), "control": bool(named & controls)})
        return Differences(rows, columns=[other, "first", "second", *DIFFERENCE, "control"])

    def quadrants(self, score: str = "aligned_outcomes", threshold: float | None = None) -> pd.DataFrame:
        """How often prediction and explanation were kept or changed, as counts and shares with intervals: see `results.quadrants`."""
        return quadrants(self, score, threshold)

    def over_random(self, score: str, random: str | None = None) -> pd.DataFrame:
        """How far explainers score above a random map, as a difference and in per cent, with intervals: see `results.over_random`."""
        return over_random(self, score, random)

    def facts(self) -> pd.DataFrame:
        """What explainers learnt about the models before they explained anything: one row per fact, such as a concept's accuracy."""
        return pd.DataFrame(self.manifest.get("facts") or [], columns=fact_columns(self.manifest.get("facts") or []))

    def strengths(self) -> pd.DataFrame:
        """Where calibrated paths end: one row per model and space.

        `low` and `high` are the 95 % range of the strength `sigma` over samples and copies, `agreement` is the share of predictions
        that are kept there, `independent` the share in which unrelated predictions would agree. Where `levels_off`, `chance` is what
        the agreement levels off at in the place of 1/C.
        """
        return pd.DataFrame(list(self.manifest.get("calibrations") or ()), columns=STRENGTHS)

    def draws(self, score: str) -> dict[tuple[str, str], Array]:
        """Every draw's value by (model, explainer): (samples, draws), in the order in which they were drawn."""
        return {(one.model, one.explainer): one.values for one in self._of(score)}

    def folds(self) -> pd.DataFrame:
        """One row per fold of every cross-trained model: samples held out and trained on, accuracy on the audited ones held out, seconds.

        Facts of a trainer about its networks, such as a certified Lipschitz constant, have columns of their own.
        """
        found = self.manifest.get("folds") or []
        return pd.DataFrame(found, columns=[*FOLDS, *(name for name in fact_columns(found) if name not in FOLDS)])

    def sets(self, score: str) -> dict[tuple[str, str], tuple[Array, Array]]:
        """The distances of S= and of S!= by (model, explainer), of a score of stability."""
        sets = getattr(self.score(score), "sets", None) if self._of(score) else None
        if sets is None:
            raise InputError(f"The score '{score}' is not made of two sets of pairs: ask for one of stability, such as 'reco'.")
        both = {(one.model, one.explainer): sets(one.measured) for one in self._of(score) if len(one.samples)}
        return {key: (distance[member == 0], distance[member == 1]) for key, (distance, member) in both.items()}

    def explanations(self, model: str, explainer: str) -> Tensor:
        """The explanations of the unperturbed inputs, (samples, ...), as they were measured.

        Of very many, a folder keeps those of the first samples: as many as fit into 1 GiB.
        """
        parts = list(self._explained(model, explainer))
        samples = torch.cat([numbers for numbers, _ in parts])
        return torch.cat([maps for _, maps in parts])[samples.argsort()]

    def _explained(self, model: str, explainer: str) -> Iterator[tuple[Tensor, Tensor]]:
        """The samples and explanations of every stored block; raises if there is none."""
        cells = [cell for cell in self.manifest["cells"] if (cell["model"], cell["explainer"]) == (model, explainer)]
        if not cells:
            raise unknown("subject of this run", f"{model} / {explainer}", {f"{one.model} / {one.explainer}" for one in self.series})
        scattered = self.manifest.get("blocks", {}).get(model, {})
        stored, found = self.folder.records.keys("explanations"), False
        for base, cell in {cell["base"]: cell for cell in cells}.items():
            kept = self.folder.read_tensors("explanations", base) if base in stored else None
            if kept is not None:
                found = True
                numbers = scattered.get(str(cell["start"])) or range(int(cell["start"]), int(cell["stop"]))
                yield torch.tensor(list(numbers)), kept["explanation"]
        if not found:
            raise StoreError(
                f"The explanations of {model} / {explainer} are not in {self.path}: run the same command again, which makes them."
            )

    def visualisations(self) -> list[Visualised]:
        """The pictures of global explanations: of the models themselves, and of their copies along the first draw of a path."""
        return visualised(self.folder, list(dict.fromkeys((one.model, one.explainer) for one in self.series)))

    def attributions(self) -> pd.DataFrame:
        """What each explainer gives to the named features of a table: one row per model, explainer and feature.

        `mean` is the mean over samples of the sum over the feature's values, and `share` its mean magnitude as a share of all
        features. If a sample is several arrays, each is one feature, and the magnitudes of its values are summed. Empty if the inputs
        have no names.
        """
        data: dict[str, Any] = self.manifest.get("data") or {}
        parts = data.get("parts") or []
        known: dict[str, Any] = data.get("features") or {}
        if parts:
            places = [place for place, part in enumerate(parts) for _ in range(math.prod(part["shape"]))]
            known = {"names": [part["name"] for part in parts], "groups": places}
        subjects = {
            (cell["model"], cell["explainer"]) for cell in self.manifest["cells"] if cell["frame"] == "input" and not cell["control"]
        }
        columns = ["model", "explainer", "feature", "mean", "share"]
        rows: list[dict[str, Any]] = []
        for model, explainer in sorted(subjects) if known else ():
            try:
                found = feature_means((maps for _, maps in self._explained(model, explainer)), torch.tensor(known["groups"]), bool(parts))
            except StoreError:
                continue
            if found is None:
                continue
            mean, size = found
            values = zip(known["names"], mean.tolist(), (size / size.sum()).tolist(), strict=True)
            rows += [dict(zip(columns, (model, explainer, *value), strict=True)) for value in values]
        return pd.DataFrame(rows, columns=columns)

    def advice(self) -> list[dict[str, Any]]:
        """What `veracity advise` said about this run: one record per step; empty if it was not asked."""
        if not self.folder.files.exists(ADVICE):
            return []
        try:
            return as_advice(self.folder.files.read(ADVICE, LARGEST))
        except (ValueError, OSError) as error:
            raise StoreError(f"{self.folder.files.path(ADVICE)} is damaged ({error}): delete it, or ask for advice again.") from error

    def failures(self) -> pd.DataFrame:
        """What failed, and why: one row per model, explainer, score and error, with how many cells failed, or how many samples.

        Pending cells did not fail.
        """
        rows = []
        for one in self.series:
            about, size = [one.model, one.explainer, one.score], len(one.samples)
            if one.broken:
                rows.append([*about, one.failed, one.broken, one.cells, 0, size])
            rows += [[*about, error, 0, one.cells, number, size] for error, number in Counter(one.lost.values()).items()]
        return pd.DataFrame(rows, columns=FAILURES)

    def worst(self, score: str, count: int = 1) -> list[WorstPair]:
        """The `count` worst pairs of each model and explainer, worst first."""
        pairs: dict[tuple[str, str], list[WorstPair]] = {}
        sign, stored = -1.0 if any(one.direction is Direction.LOWER for one in self._of(score)) else 1.0, self.folder.records.keys("worst")
        for cell in self.manifest["cells"]:
            if cell["score"] == score and cell["key"] in stored and (kept := self.folder.read_tensors("worst", cell["key"])):
                found = pairs.setdefault((cell["model"], cell["explainer"]), [])
                found.extend(unpack_pairs(cell, kept))
                found.sort(key=lambda pair: sign * pair.value if pair.merit is None else -pair.merit)
                del found[count:]  # pairs hold inputs and explanations
        return [pair for found in pairs.values() for pair in found]

    def save_report(self, path: str | Path) -> Path:
        """Write the report, one HTML file that opens anywhere."""
        return save_page(Kind.AUDIT, self, path)

    def log_to_mlflow(self, prefix: str = "") -> str:
        """Log numbers with intervals, tables, the page and the settings into MLflow's active run, or a new one; returns the run's id.

        `prefix` stands before all names, for a run that holds several results. Pending rows are in the table alone.
        """
        table = self.table()
        return log(
            Logged(
                kind=Kind.AUDIT,
                title=self.manifest.get("title") or "Explanation audit",
                numbers=table[table["state"] == State.DONE],
                tables={"table": table, **({"failures": lost} if len(lost := self.failures()) else {})},
                parameters=spec_parameters(self.manifest),
                write=lambda folder: self.save_report(folder / "report.html"),
                path=self.path,
                manifest=self.manifest,
            ),
            prefix,
        )

    def estimate(self, one: Series, confidence: float | None = None) -> dict[str, Any]:
        """A score's mean and intervals, of this confidence or the run's; one that reduces its draws in its own way has none over draws."""
        level = self.confidence if confidence is None else confidence
        if not len(one.samples) or (one.pending and self.pools(one.score)):
            return asdict(means.estimate(np.zeros((0, 1)), one.sampling, one.bounds, confidence=level))
        if self.pools(one.score):
            return asdict((self._pooled(one) if confidence is None else self._pool(one, level)).estimate)
        if self._centre(one.score) == "median":
            how: dict[str, Any] = {"censored": censored(one), "confidence": level, "units": one.units}
            middle = medians.median_estimate(one.per_sample, one.errors, one.bounds, **how)
            return {**asdict(middle), "undefined_draws": undefined(one)}
        found = asdict(means.estimate(one.values, one.sampling, one.bounds, confidence=level, counts=one.counts, units=one.units))
        if "undefined" in one.measured.quantities:
            found["undefined_draws"] = undefined(one)
        if self.manifest["score_specs"][one.score]["reduce"] == "mean":
            return found
        own = asdict(means.estimate(one.per_sample, one.sampling, one.bounds, confidence=level, units=one.units))
        return {**own, "undefined_draws": found["undefined_draws"], "draws": found["draws"]}

    def _centre(self, score: str) -> str:
        """How samples are summed up: by their mean or their median."""
        return str(self.manifest["score_specs"][score].get("centre", "mean"))

    def in_map_units(self, score: str) -> bool:
        """Whether a score is in the map's own units: it compares samples and models, never explainers."""
        return self.known_score(score).in_map_units

    def pools(self, score: str) -> bool:
        """Whether a score is one number of the whole data set."""
        return bool(self.manifest["score_specs"][score].get("pooled", False))

    def score(self, score: str) -> Score:
        """A score as it was measured."""
        return as_read(self.manifest["score_specs"][score]["spec"])

    def known_score(self, score: str) -> Score:
        """A score as it was measured, or a stand-in if it is not installed here."""
        about = self.manifest.get("score_specs", {}).get(score, {})
        absent = Absent(map_units=bool(about.get("in_map_units")))
        try:
            return as_read(about["spec"]) if about.get("spec") else absent
        except (VeracityError, TypeError):
            return absent

    def pooled_score(self, score: str) -> PooledScore:
        """A score of the whole data set, as it was measured."""
        found = self.score(score)
        if not isinstance(found, PooledScore):
            raise SpecError(f"The score '{score}' is not pooled over the data set: install the distribution that it was measured with.")
        return found

    def _pooled(self, one: Series) -> pooled.PooledEstimate:
        """A pooled score's value, interval and null; cached, since both are resampled."""
        key = (one.model, one.explainer, one.score)
        if key not in self._known:
            self._known[key] = self._pool(one, self.confidence)
        return self._known[key]

    def _pool(self, one: Series, confidence: float) -> pooled.PooledEstimate:
        return pooled.pooled_estimate(self.pooled_score(one.score), one.measured, one.bounds, confidence, units=one.units)

    def _beside(self, one: Series) -> dict[str, Any]:
        """The sizes of the sets, if it compares sets, and the null of a pooled score."""
        if not self.pools(one.score) or not len(one.samples) or one.pending:
            return {}
        found = self._pooled(one)
        same, differ = found.sizes or (None, None)
        return {
            "pairs_same": same,
            "pairs_differ": differ,
            "null_mean": found.null.mean if found.null else np.nan,
            "null_high": found.null.high if found.null else np.nan,
            "p_value": found.null.p_value if found.null else np.nan,
        }

    def _summed(self, one: Series | None, beside: str) -> float:
        """The number of a control or companion, shown beside a score; NaN while it is pending."""
        if one is not None and one.pending:
            return math.nan
        if one is None:
            return math.nan
        key = (one.model, one.explainer, one.score, self._centre(beside))
        if key not in self._sums:
            pooled_value = self.pools(one.score)
            alone = summarise(one, key[3]) if not pooled_value else self._pooled(one).estimate.value if len(one.samples) else math.nan
            self._sums[key] = alone
        return self._sums[key]

    def _holds(self, one: Series) -> float:
        """The share of samples on which the model does what a score assumes; NaN if it assumes nothing, or that is pending."""
        what = self.manifest.get("assumptions", {}).get(one.score)
        if not what:
            return math.nan
        key = (one.model, "", what, "holds")
        if key not in self._sums:
            model = next((other for other in self.series if (other.model, other.explainer, other.score) == key[:3]), None)
            self._sums[key] = mean(model.per_sample) if model is not None and not model.pending else math.nan
        return self._sums[key]

    def _of(self, score: str) -> list[Series]:
        found = [one for one in self.series if one.score == score]
        if not found:
            raise unknown("score of this run", score, {one.score for one in self.series})
        return found

    def _parts(self, keys: Sequence[str]) -> Iterator[Part]:
        """The cells of one series, read by some threads; raises if they have too many rows to hold."""
        left = MOST_ROWS
        with ThreadPoolExecutor(READERS) as pool:
            for part in pool.map(lambda key: dense(self.folder.read_cell(key, NUMBERS)), keys):
                left -= part.lines
                if left < 0:
                    raise StoreError(f"The cells of one score in {self.path} have more than {MOST_ROWS:,} rows, too many to read.")
                yield part

    def _arrays(self, score: str, keys: Sequence[str], lost: Mapping[int, str]) -> Arrays:
        """The numbers of one series."""
        samples, measured, counts = gather(self._parts(keys))
        try:
            values, per_sample, still, errors, remarks = derive(self.manifest["score_specs"][score], measured)
        except (LookupError, TypeError, ValueError, ArithmeticError) as error:
            raise StoreError(
                f"The cells of '{score}' in {self.path} do not hold what this score is made of ({type(error).__name__}: {error}): "
                "delete them and run the same command again."
            ) from error
        counts = np.where(np.isin(samples, list(lost)), 0, counts) if lost else counts
        drawn = int(counts.sum())
        return Arrays(samples, values, draws_of(values, measured, counts), drawn, per_sample, measured, still, errors, remarks)

    def _read(self) -> Iterator[Series]:
        finished, failures, incomplete = self.progress.done, self.progress.failures, self.folder.incomplete()
        grouped: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
        for cell in self.manifest["cells"]:
            grouped.setdefault((cell["model"], cell["explainer"], cell["score"]), []).append(cell)
        for (model, explainer, score), cells in grouped.items():
            keys = [cell["key"] for cell in cells if cell["key"] in finished]
            lost: dict[int, str] = {}
            for key in incomplete & set(keys):
                reasons, error, rows = self.folder.failed_samples(key), self.folder.failure(key), self.folder.read_cell(key)
                broken = rows.filter(pc.equal(rows["status"].cast(pa.string()), "failed"))
                lost |= {sample: reasons.get(sample, error) for sample in broken["sample"].to_pylist()}
            cell_errors = [failures[cell["key"]] for cell in cells if cell["key"] in failures]
            missing = sum(cell["key"] not in finished for cell in cells)
            first = cells[0]
            yield Series(
                model=model,
                explainer=explainer,
                control=first["control"],
                signed=first["signed"],
                directed=first.get("directed", first["signed"]),
                frame=first.get("frame", Frame.INPUT.value if explainer else ""),
                categorical=first.get("categorical", False),
                score=score,
                sampling=Sampling(**first["sampling"]),
                bounds=(float(first["bounds"][0]), float(first["bounds"][1])),
                direction=Direction(first["direction"]),
                read=partial(self._held.recall, (model, explainer, score), partial(self._arrays, score, keys, lost)),
                cells=len(cells),
                missing=missing,
                broken=len(cell_errors),
                failed=next(iter([*cell_errors, *(lost[sample] for sample in sorted(lost))]), ""),
                lost=dict(sorted(lost.items())),
                null=str(first.get("null", "")),
                every_unit=self.units,
            )


def feature_means(blocks: Iterable[Tensor], groups: Tensor, magnitudes: bool) -> tuple[Tensor, Tensor] | None:
    """The means over samples of the sum over each feature's values, and of its magnitude; None if maps have another shape.

    Maps (samples, d) come block by block. With `magnitudes`, those of the single values are summed.
    """
    total, size, count = (torch.zeros(int(groups.max()) + 1, dtype=torch.float64) for _ in range(3))
    for maps in blocks:
        if maps.shape[1:] != groups.shape:
            return None
        sums = group_sums(maps.double(), groups)
        sizes = group_sums(maps.double().abs(), groups) if magnitudes else sums.abs()
        total, size, count = total + sums.nansum(dim=0), size + sizes.nansum(dim=0), count + sums.isfinite().sum(dim=0)
    return total / count, size / count


def sample_table(series: Sequence[Series]) -> pd.DataFrame:
    """One row per subject and measured sample."""
    frames = [
        pd.DataFrame(
            {
                "model": one.model,
                "explainer": one.explainer,
                "control": one.control,
                "sample": one.samples,
                "value": one.per_sample,
                **({} if one.errors is None else {"error": one.errors}),
                **one.remarks,
                "draws": one.counts,
                "undefined": one.counts - np.isfinite(one.values).sum(axis=1),
                "failed": [one.lost.get(sample, "") for sample in one.samples.tolist()] if one.lost else "",
            }
        )
        for one in series
    ]
    return pd.concat(frames, ignore_index=True)


def standing(one: Series, value: float) -> dict[str, Any]:
    """The state of a row and the counts of its cells."""
    measured = one.cells - one.missing
    state = row_state(cells=one.cells, measured=measured, failed=one.broken, value=value)
    return {"state": state.value, "cells": one.cells, "cells_measured": measured, "cells_failed": one.broken}


def fact_columns(facts: list[dict[str, Any]]) -> list[str]:
    """The columns of all facts, in the order of their appearance."""
    return list(dict.fromkeys(key for fact in facts for key in fact))
