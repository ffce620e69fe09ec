"""Settings are checked by their declared types, whoever makes the component."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from typing import Annotated, Any, Literal

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from veracity import Audit
from veracity.core import registry
from veracity.core.component import Component
from veracity.core.errors import SpecError, VeracityError
from veracity.core.registry import MEASURES, REGISTRIES, Registry
from veracity.core.settings import WRONG, Count, Inside, Positive, Whole, Within, check_fields, check_settings, kind_of_hint, short_repr
from veracity.core.walks import Walk
from veracity.explain import GradientShap, KernelShap, Lime
from veracity.measure import cosine
from veracity.orbits import GroupOrbit
from veracity.perturb import CyclicShift, Product
from veracity.scores import Equivariance
from veracity.scores.common import as_score
from veracity.walk import MonteCarlo, Strongest, SubsetSimulation


class Broken:
    """Something that cannot even be shown."""

    def __repr__(self) -> str:
        raise RuntimeError("no words")


def deep(levels: int = 60) -> list[Any]:
    found: list[Any] = []
    for _ in range(levels):
        found = [found]
    return found


HOSTILE: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 2**70, -(2**70), 0.0, 0.5, -1.0, 1e308, math.nan, math.inf, -math.inf, 1 + 2j, "", "a", "cosine",
    "x" * 500, b"a", (), [], {}, [1], [1, "a"], (None,), [[1]], deep(), {"name": "a"}, {"name": 3}, {"name": []}, {"a": 1}, {1: 2}, {1, 2},
    range(3), object(), object, int, len, lambda: 1, Broken(), Ellipsis, NotImplemented, np.int64(3), np.float32(0.5), np.bool_(True),
    np.zeros(3), np.zeros(()), np.array(["a"]), np.array([None, 1], dtype=object), torch.zeros(3), torch.tensor(2), torch.tensor(0.5),
    torch.tensor(True), torch.zeros(2, 2).to_sparse(), torch.zeros(2, device="meta"), torch.zeros((), device="meta"),
    torch.zeros(2, dtype=torch.complex64), nn.Linear(2, 2), nn.Linear, MonteCarlo(), MonteCarlo, CyclicShift(), cosine, SpecError("a"),
)  # fmt: skip


def registries() -> list[Registry[Any]]:
    """Of components: recipes, figures, renderers and adapters of models have no settings."""
    without = ("recipe", "figure", "renderer", "model adapter")
    return [one for one in vars(registry).values() if isinstance(one, Registry) and one.kind not in without]


COMPONENTS = [(home.kind, name) for home in registries() for name in home]


def one_sentence(text: str | None) -> bool:
    return text is None or ("\n" not in text and len(text) < 1500 and (text[-1] in ".?" or "See: veracity ls" in text))


@pytest.mark.parametrize(("kind", "name"), COMPONENTS, ids=[f"{kind}-{name}" for kind, name in COMPONENTS])
def test_no_value_of_any_setting_ends_in_a_traceback(kind: str, name: str) -> None:
    home = next(one for one in registries() if one.kind == kind)
    made = home[name]
    if isinstance(made, Component) or not isinstance(made, type):
        settings = [one for one in ("window", "size", "sigma", "data_range", "fraction", "directions") if takes(made, one)]
        ways: list[Callable[..., Any]] = [made.using]
    else:
        settings = [one.name for one in fields(made) if one.init]
        needed = {one.name: 1 for one in fields(made) if one.init and required(one)}
        ways = [lambda **given: made(**{**needed, **given}), lambda **given: home.build({"name": name, **needed, **given})]
    for setting in [*settings, "no_such_setting"]:
        for value in HOSTILE:
            for way in ways:
                said = None
                try:
                    way(**{setting: value}).spec()
                except VeracityError as error:
                    said = str(error)
                assert one_sentence(said)
                assert said or setting != "no_such_setting"


def required(one: Any) -> bool:
    return type(one.default).__name__ == type(one.default_factory).__name__ == "_MISSING_TYPE"


def takes(made: Any, setting: str) -> bool:
    return setting in made.function.__annotations__


@pytest.mark.parametrize(("kind", "name"), COMPONENTS, ids=[f"{kind}-{name}" for kind, name in COMPONENTS])
def test_every_component_says_what_it_is_and_accepts_its_defaults(kind: str, name: str) -> None:
    made = next(one for one in registries() if one.kind == kind)[name]
    assert made.role == kind
    assert kind in REGISTRIES
    if isinstance(made, type) and not any(required(one) for one in fields(made) if one.init):
        built = made()
        given = {one.name: getattr(built, one.name) for one in fields(made) if one.init}
        for key, value in check_settings(made, given).items():
            assert value is given[key]
        assert replace(built) == built or any(isinstance(value, Tensor) for value in given.values())


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: KernelShap(patch=0), "The setting 'patch' of explainer 'kernel_shap' must be a whole number of at least 1, not 0."),
        (lambda: CyclicShift(sizes=0.5), "The setting 'sizes' of group 'cyclic_shift' must be a list of whole numbers of at least 1 or None, not 0.5."),  # noqa: E501
        (lambda: GradientShap(baselines=True), "The setting 'baselines' of explainer 'gradient_shap' must be a tensor or None, not True."),
        (lambda: Strongest(searches=5), "The setting 'searches' of walk 'strongest' must be a list of Search objects, not 5."),
        (lambda: MonteCarlo(draws=True), "The setting 'draws' of walk 'monte_carlo' must be a whole number of at least 1, not True."),
        (lambda: Lime(ridge=math.inf), "The setting 'ridge' of explainer 'lime' must be a positive finite number, not inf."),
        (lambda: Lime(sampels=3), "Unknown setting of explainer 'lime' 'sampels'. Did you mean 'samples'?"),
        (lambda: Lime(3), "The explainer 'lime' takes its settings by name, such as patch=..., not by position."),
        (lambda: registry.TARGETS.build("class"), "The target 'class' needs the setting 'index', a whole number."),
        (lambda: Equivariance(measure="cosin"), "Unknown measure 'cosin'. Did you mean 'cosine'? See: veracity ls measures"),
        (lambda: Equivariance(walk=3), "The setting 'walk' of score 'equivariance' must be a Walk (an object, a name or a table with a name) or None, not 3."),  # noqa: E501
        (lambda: MEASURES["sorensen_dice"].using(fraction=2), "The setting 'fraction' of measure 'sorensen_dice' must be a number above 0 and at most 1, not 2."),  # noqa: E501
        (lambda: audit(confidence="a"), "The setting 'confidence' of the audit must be a number above 0 and below 1, not 'a'."),
        (lambda: audit(examples=0), "The setting 'examples' of the audit must be a whole number of at least 1 or None, not 0."),
    ],
)  # fmt: skip
def test_a_wrong_setting_is_one_sentence(make: Callable[[], object], sentence: str) -> None:
    with pytest.raises(SpecError) as caught:
        make()
    assert str(caught.value) == sentence


def audit(**settings: Any) -> Audit:
    return Audit(models=nn.Linear(2, 2), inputs=torch.zeros(2, 2), **settings)


def test_numbers_of_numpy_and_torch_are_stored_as_pythons() -> None:
    for three in (3, np.int64(3), np.uint8(3), np.array(3), torch.tensor(3)):
        found = MonteCarlo(draws=three).draws
        assert (found, type(found)) == (3, int)
    for half in (0.5, np.float32(0.5), torch.tensor(0.5)):
        found = Lime(ridge=half).ridge
        assert (found, type(found)) == (0.5, float)
    assert MonteCarlo(replace=np.bool_(True)).replace is True
    assert audit(seed=np.int64(3)).seed == 3


def test_lists_become_what_was_declared() -> None:
    assert CyclicShift(axes=[-2, -1]).axes == (-2, -1)
    assert CyclicShift(sizes=torch.Size([3])).sizes == (3,)
    assert torch.equal(GradientShap(baselines=[[0.0, 1.0]]).baselines, torch.tensor([[0.0, 1.0]]))
    assert torch.equal(GradientShap(baselines=np.ones((2, 2))).baselines, torch.ones(2, 2))


def test_components_are_looked_up_by_name() -> None:
    assert Equivariance(measure="cosine", walk="exhaustive").measure is cosine
    assert Equivariance(walk={"name": "monte_carlo", "draws": 3}).walk == MonteCarlo(draws=3)
    assert as_score({"name": "max_sensitivity", "space": {"name": "ball", "radius": 0.5}}).space.radius == 0.5
    assert Product(factors=("mirror", {"name": "cyclic_shift", "axes": [-1]})).factors[1] == CyclicShift()
    assert Strongest(searches=["genetic"]).searches[0].name == "genetic"
    assert SubsetSimulation(kernel="window").kernel.name == "window"
    assert GroupOrbit(space="d4").space.name == "d4"


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True, kw_only=True)
class Everything(Component):
    """A component from outside, with a constructor's end of its own that does not call anybody else's."""

    role = "explainer"
    name = "everything"
    whole: int = 0
    count: Count = 1
    share: Inside = 0.5
    choice: Literal["a", "b"] = "a"
    colour: Colour = Colour.RED
    pair: tuple[int, float] = (1, 2.0)
    table: Mapping[str, float] = field(default_factory=dict)
    function: Callable[[int], int] | None = None
    kind: type[nn.Module] = nn.Linear
    walks: Sequence[Walk] = ()
    anything: Any = None
    module: nn.Module | None = None
    unresolvable: NotAtHand | None = None  # type: ignore[name-defined]  # noqa: F821
    few: Annotated[int, Within(least=2, most=4)] = 2

    def __post_init__(self) -> None:
        assert self.count >= 1, "checked before this runs"


def test_a_class_of_ones_own_cannot_forget_the_check() -> None:
    for wrong in (
        {"whole": 1.5}, {"whole": True}, {"count": 0}, {"share": 1.0}, {"choice": "c"}, {"choice": []}, {"colour": "green"}, {"colour": 3},
        {"pair": (1,)}, {"pair": (1.5, 2)}, {"table": {"a": "b"}}, {"table": [1]}, {"function": 3}, {"kind": nn.Linear(1, 1)},
        {"walks": "exhaustive"}, {"walks": [cosine]}, {"module": nn.Linear}, {"few": 5},
    ):  # fmt: skip
        with pytest.raises(SpecError, match=rf"^The setting '{next(iter(wrong))}' of explainer 'everything' must be .*, not .*\.$"):
            Everything(**wrong)
    found = Everything(colour="blue", pair=[1, 2], walks=["exhaustive"], function=len, anything=Broken(), unresolvable=3)
    assert (found.colour, found.pair, found.walks[0].name) == (Colour.BLUE, (1, 2), "exhaustive")
    with pytest.raises(SpecError, match="must be a whole number of at least 1"):
        replace(found, count=0)
    plain = Everything(whole=3)
    assert pickle.loads(pickle.dumps(plain)) == plain == deepcopy(plain)


def test_a_constructor_of_ones_own_is_checked_too() -> None:
    class Own(Component):
        name = "own"

        def __init__(self, size: Positive, *rest: int, **more: Any) -> None:
            object.__setattr__(self, "size", size)

    assert Own(size=2).size == 2
    assert Own(size=2, other="a").size == 2
    with pytest.raises(SpecError, match="The setting 'size' of Own must be a positive number, not -1"):
        Own(size=-1)


def test_fields_of_other_dataclasses() -> None:
    @dataclass(frozen=True)
    class Plan:
        seed: Whole = 0
        data: int = 0

        def __post_init__(self) -> None:
            check_fields(self, "the plan", others=("data",))

    assert type(Plan(seed=np.int64(4)).seed) is int
    assert Plan(data="anything").data == "anything"
    with pytest.raises(SpecError, match="The setting 'seed' of the plan must be a whole number of at least 0, not -1"):
        Plan(seed=-1)


def test_ranges_have_words() -> None:
    words = [kind_of_hint(Annotated[float, one]).words for one in (Within(above=0), Within(least=0, below=1), Within(most=3))]
    assert words == ["a positive number", "a number of at least 0 and below 1", "a number at most 3"]
    assert kind_of_hint(list[int]).accept((1, 2)) == [1, 2]
    assert kind_of_hint(frozenset[str]).accept(["a"]) == frozenset("a")
    assert kind_of_hint(tuple[int, ...]).accept("12") is WRONG


def test_values_are_shown_short() -> None:
    assert short_repr("a" * 500) == "'" + "a" * 76 + "..."
    assert short_repr(Broken()) == "an object of type Broken"
    assert short_repr(torch.zeros(2, 3)) == "a tensor of shape (2, 3)"
    assert short_repr(2**70) == "a number of 71 bits"
    assert short_repr("a\nb") == "'a\\nb'"
