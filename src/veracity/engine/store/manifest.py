"""What the files of a run folder must say before anybody reads on: a folder may come from anywhere.

The models below are the schema of a manifest and of the files beside it; fields that they do not name are allowed. What passes has the
right types, and names no path. How JSON from anywhere is read safely stands in records.py.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Container, Iterable, Mapping
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from veracity.engine.store.records import UNPRINTABLE, unsealed

MANIFEST = "manifest.json"


class Kind(StrEnum):
    """What a folder holds."""

    AUDIT = "audit"
    ORBITS = "orbits"
    AUDITS = "audits"
    META = "meta-evaluation"
    DEGRADATION = "degradation-check"
    DISTANCES = "distance-check"
    SCAN = "scan"
    EXAMPLES = "example-check"
    CARD = "card"

    @property
    def words(self) -> str:
        """The kind with its article.

        >>> Kind("scan").words
        'a symmetry scan'
        """
        return WORDS[self]

    @property
    def study(self) -> bool:
        """Whether the folder holds the runs of a study, and no cells of its own."""
        return self not in (Kind.AUDIT, Kind.ORBITS)


WORDS = {
    Kind.AUDIT: "an audit",
    Kind.ORBITS: "an orbit evaluation",
    Kind.AUDITS: "several audits",
    Kind.META: "a meta-evaluation",
    Kind.DEGRADATION: "a degradation check",
    Kind.DISTANCES: "a distance check",
    Kind.SCAN: "a symmetry scan",
    Kind.EXAMPLES: "an example check",
    Kind.CARD: "a card",
}
BLOCK = 1 << 16
"""The most samples of one block."""
NUMBERS = 1 << 28
"""The most values that one metric may have along all orbits."""


def inside(path: str) -> str:
    """A path that stays below its folder; raises on any other.

    >>> inside("advice/0-step-1")
    'advice/0-step-1'
    """
    if not path or path.startswith(("/", "~")) or "\\" in path or "\0" in path or ".." in PurePosixPath(path).parts:
        raise ValueError(f"'{path[:80]}' leads out of the folder")
    return path


def as_bound(value: str | float) -> str | float:
    """One end of a range, which may be infinite."""
    try:
        number = float(value)
    except ValueError as error:
        raise ValueError("must be a number") from error
    if math.isnan(number):
        raise ValueError("must be a number")
    return value


Key = Annotated[str, Field(pattern=r"^[0-9a-f]{24}$")]
"""What a file's key looks like; nothing else that a manifest says becomes a file's name."""
Inside = Annotated[str, AfterValidator(inside)]
Count = Annotated[int, Field(ge=0, lt=1 << 48)]
Plain = str | bool | int | float | None


class Part(BaseModel):
    """A table of a file: the types are exact, numbers are finite, and fields that are not named here are let be."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False)


class Record(Part):
    """A table whose other fields are plain values."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Plain]


class FeatureNames(Part):
    """The features of a table: their names, and the feature of each value."""

    names: Annotated[list[str], Field(min_length=1)]
    groups: Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1)]
    background: str


class ArrayPart(Part):
    """One of the explained arrays of a sample."""

    name: str
    shape: list[Count]


class UnitsOf(Part):
    """Which samples belong together: what a unit is called, and the number of the unit of each sample."""

    name: str
    of: list[Count]


class GroupsOf(Part):
    """The subgroups by one name: their labels, and the place of the label of each sample, -1 if it has none."""

    name: str
    labels: list[str]
    of: list[Annotated[int, Field(ge=-1)]]

    @model_validator(mode="after")
    def places(self) -> Self:
        """Every place is that of a label."""
        if max(self.of, default=-1) >= len(self.labels):
            raise ValueError("a sample has a group without a label")
        return self


class Data(Part):
    """The inputs. Texts have words, in a `unit`; samples of several explained arrays have `parts`.

    A block has `block` samples. Of a dataset that is read by blocks, `hashes` are those of the blocks, or of its version.
    """

    samples: Count
    shape: list[Count]
    fingerprint: str
    block: Count | None = None
    hashes: list[str] | None = None
    features: FeatureNames | None = None
    words: list[list[str]] | None = None
    unit: Literal["word", "token"] | None = None
    parts: list[ArrayPart] | None = None
    units: UnitsOf | None = None
    groups: list[GroupsOf] | None = None

    @model_validator(mode="after")
    def people(self) -> Self:
        """Units and groups have one entry per sample."""
        for one in (*([] if self.units is None else [self.units]), *(self.groups or ())):
            if len(one.of) != self.samples:
                raise ValueError(f"'{one.name[:80]}' has {len(one.of)} entries for {self.samples} samples")
        return self


class Note(Part):
    """A sentence that a reader must know."""

    model: str = ""
    explainer: str = ""
    text: str = ""


class Published(Part):
    """A figure to compare with."""

    model: str
    explainer: str
    score: str
    value: float
    where: str | None = None
    caveat: str | None = None


class Spec(Part):
    """What was asked for, as far as readers look at it."""

    confidence: Annotated[float, Field(gt=0, lt=1)] = 0.95
    published: list[Published] = []
    recipe: str | None = None
    scale: str | None = None
    steps: dict[str, float] | None = None


class Shared(Part):
    """What the manifest of every run says."""

    model_config = ConfigDict(protected_namespaces=())
    created: str | None = None
    title: str | None = None
    command: str | None = None
    versions: dict[str, str | None] = {}
    seed: Annotated[int, Field(ge=0)]
    data: Data
    notes: list[Note]


class SampledBy(Part):
    """How draws came about; exactly these fields."""

    model_config = ConfigDict(extra="forbid")
    exhaustive: bool = False
    population: Annotated[int, Field(ge=1, lt=10**300)] | None = None
    anytime: Annotated[float, Field(gt=0, lt=1)] | None = None
    nested: bool = True


class Cell(Part):
    """One cell of an audit."""

    key: Key
    base: Key | Literal[""] | None = None
    model: str
    explainer: str
    control: bool
    signed: bool
    directed: bool | None = None
    frame: Literal["", "input", "training set", "concepts", "output", "global", "features"] = ""
    categorical: bool = False
    score: str
    start: Count
    stop: Count
    sampling: SampledBy
    bounds: Annotated[list[Annotated[str | float, AfterValidator(as_bound)]], Field(min_length=2, max_length=2)]
    direction: Literal["higher", "lower"]


class Named(Part):
    """A component as plain data."""

    name: str


class ScoreAbout(Part):
    """A score, and how its values are derived."""

    spec: Named
    reduce: Literal["mean", "own"]
    values: Literal["plain", "own"] = "plain"
    centre: Literal["mean", "median"] = "mean"
    null: float | None = None
    pooled: bool = False
    in_map_units: bool = False


class ModelAbout(Part):
    """A model of an audit."""

    fingerprint: str
    accuracy: float | None
    outputs: str
    classes: dict[Literal["predicted", "label", "explained"], list[str]] | None = None


class Fold(Record):
    """One fold of a cross-trained model; what is not known of it is left out."""

    model: str
    fold: Count
    held_out: Count | None = None
    trained_on: Count | None = None
    samples: Count | None = None
    accuracy: float | None = None
    seconds: float | None = None


class Strict(Part):
    """One score in TF32 and in strict float32 on the same samples: both means, and the largest difference of a sample."""

    model: str
    explainer: str
    score: str
    samples: Count
    tf32: float
    float32: float
    largest: float


class Calibration(Part):
    """Where the paths of one model end."""

    model: str
    space: str
    sigma: float
    agreement: float
    chance: float
    tolerance: float
    curve: list[Annotated[list[float], Field(min_length=2, max_length=2)]]
    draws: Count
    levels_off: bool = False
    low: float | None = None
    high: float | None = None
    independent: float | None = None
    classes: Count = 0

    @model_validator(mode="after")
    def whole(self) -> Self:
        """Raise if a range has one end, or a chance level no rival."""
        named = self.model_fields_set
        if ("low" in named or "high" in named) and (self.low is None or self.high is None):
            raise ValueError("needs both low and high, or neither")
        if self.levels_off and self.independent is None:
            raise ValueError("needs independent where the agreement levels off")
        if any(strength <= 0 for strength, _ in self.curve):
            raise ValueError("needs strengths above 0 in its curve")
        return self


class MeaningLine(Part):
    """Some words of a sample, and how strongly a feature fires on each; `cut` says whether words before them are left out."""

    sample: Count
    words: list[str]
    values: list[float]
    peak: Count
    cut: bool = False


class Meaning(Part):
    """What a feature of a layer stands for: its mean, the share of tokens on which it fires, and where it fires most."""

    model: str
    explainer: str
    feature: Count
    mean: float
    fires: float
    lines: list[MeaningLine]


class AuditManifest(Shared):
    """The manifest of an audit."""

    spec: Spec
    symmetry: str | None = ""
    scores: list[str]
    score_specs: dict[str, ScoreAbout]
    assumptions: dict[str, str] = {}
    models: dict[str, ModelAbout]
    folds: list[Fold] | None = None
    blocks: dict[str, dict[str, list[Count]]] = {}
    facts: list[dict[str, Plain]] | None = None
    calibrations: list[Calibration] | None = None
    strict: list[Strict] | None = None
    meanings: list[Meaning] | None = None
    concluded: bool = False
    cells: list[Cell]

    @model_validator(mode="after")
    def fits(self) -> Self:
        """Raise if one part names what another does not have."""
        known(self.scores, self.score_specs, "scores", "score_specs")
        known((cell.score for cell in self.cells), self.score_specs, "cells", "score_specs")
        known((cell.model for cell in self.cells), self.models, "cells", "models")
        once((cell.key, cell.model, cell.explainer, cell.score) for cell in self.cells)
        for cell in self.cells:
            long = BLOCK if cell.model not in self.blocks else self.data.samples
            if not cell.start < cell.stop <= self.data.samples or cell.stop - cell.start > long:
                raise ValueError(f"the cell {cell.key} has the samples {cell.start} to {cell.stop} of {self.data.samples}")
        return self


class Axis(Part):
    """One coordinate of an orbit."""

    name: str
    label: str
    consensus_label: str = ""
    unit: str
    low: float
    high: float
    period: float | None = None
    step: float


class Orbit(Part):
    """Where the transforms lie and what they are called."""

    spec: Named
    layout: Literal["polar", "heatmap", "slices", "tiles", "disk", "line"]
    axes: Annotated[list[Axis], Field(min_length=1)]
    coordinates: list[list[float]]
    identity: Count
    elements: Annotated[list[str], Field(min_length=1)]
    plane: str | None = None

    @model_validator(mode="after")
    def fits(self) -> Self:
        """Raise unless every element has its coordinates."""
        if len(self.coordinates) != len(self.elements) or any(len(place) != len(self.axes) for place in self.coordinates):
            raise ValueError("needs one coordinate per element and axis")
        if self.identity >= len(self.elements):
            raise ValueError(f"has no element {self.identity}")
        return self


class Task(Part):
    """What models are asked for."""

    kind: str
    classes: list[str]


class Metric(Part):
    """One metric along orbits."""

    name: str
    label: str
    unit: str
    low: float | None
    high: float | None
    higher_is_better: bool
    references: Annotated[list[Literal["truth", "consensus"]], Field(min_length=1)]
    explainer: str | None


class Drawn(Part):
    """How inputs are drawn."""

    kind: Literal["image", "scene", "pair", "cloud", "series", "none"]
    shape: list[Count]
    window: Count | None
    span: Annotated[list[float], Field(min_length=2, max_length=2)]


class Block(Part):
    """Consecutive samples."""

    key: Key
    start: Count
    stop: Count


class OrbitCell(Block):
    """One model, or one of its explainers, on one block."""

    model: str
    explainer: str


class Moves(Part):
    """How outputs move along."""

    name: str | None = None


class AskedTask(Part):
    """The task as plain data."""

    action: Moves | None = None


class OrbitSpec(Spec):
    """What was asked for of an orbit evaluation."""

    confidence: Annotated[float, Field(gt=0, lt=1)]
    task: AskedTask


class OrbitManifest(Shared):
    """The manifest of an orbit evaluation."""

    about: dict[str, Any] | None = None
    spec: OrbitSpec
    models: Annotated[dict[str, Record], Field(min_length=1)]
    orbit: Orbit
    task: Task
    metrics: Annotated[list[Metric], Field(min_length=1)]
    explainers: list[str]
    labels: list[Annotated[int, Field(ge=-1)]] | None
    groups: list[str]
    truth_classes: list[int] | None = None
    input: Drawn
    pictures: Annotated[list[Block], Field(min_length=1)]
    cells: list[OrbitCell]

    @model_validator(mode="after")
    def fits(self) -> Self:
        """Raise if one part does not fit another."""
        samples, blocks = self.data.samples, [(block.start, block.stop) for block in self.pictures]
        if [start for start, _ in blocks] != [0, *(stop for _, stop in blocks[:-1])] or blocks[-1][1] != samples:
            raise ValueError(f"pictures do not cover the {samples} samples one after the other")
        if any(not 0 < stop - start <= BLOCK for start, stop in blocks):
            raise ValueError(f"a block of pictures has more than {BLOCK} samples, or none")
        if samples * len(self.orbit.elements) > NUMBERS:
            raise ValueError(f"{samples} samples along {len(self.orbit.elements)} elements are too many to read")
        for name, numbers, most in (("labels", self.labels, len(self.groups)), ("truth_classes", self.truth_classes, 1 << 48)):
            if numbers is not None and (len(numbers) != samples or max(numbers, default=0) >= most):
                raise ValueError(f"{name} do not fit the samples and groups")
        known((one.explainer for one in self.metrics if one.explainer is not None), self.explainers, "metrics", "explainers")
        if max(Counter(one.name for one in self.metrics).values()) > 1 or self.metrics[0].explainer is not None:
            raise ValueError("metrics must have different names, and the first must be one of a model")
        once((one.key, one.model, one.explainer) for one in self.cells)
        once((one.key,) for one in self.pictures)
        parts: dict[tuple[str, str], list[tuple[int, int]]] = {}
        for cell in self.cells:
            parts.setdefault((cell.model, cell.explainer), []).append((cell.start, cell.stop))
        if set(parts) != {(model, label) for model in self.models for label in ("", *self.explainers)}:
            raise ValueError("cells do not belong to the models and explainers")
        if any(part != blocks for part in parts.values()):
            raise ValueError("cells do not cover the blocks of samples")
        return self


class StudyManifest(Part):
    """The manifest of a study: `parts` are its runs, or else what it counts in the given `unit`."""

    created: str | None = None
    title: str | None = None
    command: str | None = None
    versions: dict[str, str | None] = {}
    settings: dict[str, Plain] = {}
    unit: str = "run"
    finished: bool
    parts: list[Inside]


class Advice(Part):
    """One step of the advice on a run."""

    model: str = ""
    explainer: str = ""
    branch: str = ""
    guideline: Count | None = None
    robust: bool = False
    assumption: str = ""
    measured: str = ""
    reason: str = ""
    change: str = ""
    after_label: str = ""
    before: float | None = None
    before_low: float | None = None
    before_high: float | None = None
    after: float | None = None
    after_low: float | None = None
    after_high: float | None = None
    gain: float | None = None
    gain_low: float | None = None
    gain_high: float | None = None


def known(names: Iterable[str], there: Container[str], what: str, where: str) -> None:
    """Raise on the first name that is not there."""
    missing = next((name for name in names if name not in there), None)
    if missing is not None:
        raise ValueError(f"{what} name '{missing[:80]}', which is not in {where}")


def once(keys: Iterable[tuple[str, ...]]) -> None:
    """Raise on a key, with whom it is listed for, that comes twice; models or explainers that are the same share their keys."""
    twice = next((key for key, number in Counter(keys).items() if number > 1), None)
    if twice is not None:
        raise ValueError(f"the key {twice[0]} is listed twice")


def check(model: type[BaseModel], content: Any) -> None:
    """Raise a ValueError that says the first mistake in a few words.

    >>> check(StudyManifest, {"parts": ["../x"], "finished": True})
    Traceback (most recent call last):
    ...
    ValueError: parts.0: '../x' leads out of the folder
    """
    try:
        model.model_validate(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(part)[:40] for part in first["loc"])
        what = first["msg"].removeprefix("Value error, ")
        text = what if first["type"] == "value_error" else f"{what[:1].lower()}{what[1:]}"
        raise ValueError(UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", f"{where}: {text}" if where else text)) from error


def as_advice(data: bytes) -> list[dict[str, Any]]:
    """The records of advice.json, once they are checked."""
    found = unsealed(data).get("advice")
    if not isinstance(found, list):
        raise ValueError("it holds no list")
    for record in found:
        check(Advice, record)
    return found


MANIFESTS: Mapping[Kind, type[Part]] = {Kind.AUDIT: AuditManifest, Kind.ORBITS: OrbitManifest}
"""The schema of each kind of run; that of all studies is `StudyManifest`."""


def check_manifest(content: Mapping[str, Any]) -> Kind:
    """The kind that a manifest says, if the rest of it is as that kind must be; else raises a ValueError."""
    found = content.get("kind")
    if not isinstance(found, str) or found not in list(Kind):
        raise ValueError(f"unknown kind '{str(found)[:80]}'")
    kind = Kind(found)
    check(MANIFESTS.get(kind, StudyManifest), content)
    return kind
