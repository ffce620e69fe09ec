from __future__ import annotations

import pickle
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from veracity.core import registry as registries
from veracity.core.errors import Note, SpecError
from veracity.core.measures import Direction, Measure
from veracity.core.registry import EXPLAINERS, GROUPS, MEASURES, RECIPES, SCORES, TARGETS, TRAINERS, WALKS, Registry
from veracity.explain import IntegratedGradients
from veracity.perturb import CyclicShift


def test_a_name_a_table_and_an_object_all_build() -> None:
    assert EXPLAINERS.build("integrated_gradients") == IntegratedGradients()
    assert EXPLAINERS.build({"name": "integrated_gradients", "steps": 7}) == IntegratedGradients(steps=7)
    shift = CyclicShift(axes=(-1,))
    assert GROUPS.build(shift) is shift
    assert GROUPS.build({"name": "cyclic_shift", "axes": [-2, -1]}) == CyclicShift(axes=(-2, -1))


def test_an_unknown_name_gets_the_nearest_one() -> None:
    with pytest.raises(SpecError, match=r"Unknown explainer 'salency'. Did you mean 'saliency'\? See: veracity ls explainers"):
        EXPLAINERS.build("salency")


def test_an_unknown_setting_gets_the_nearest_one() -> None:
    with pytest.raises(SpecError, match=r"Unknown setting of explainer 'integrated_gradients' 'stepz'. Did you mean 'steps'\?"):
        EXPLAINERS.build({"name": "integrated_gradients", "stepz": 7})


def test_a_table_without_a_name_is_refused() -> None:
    with pytest.raises(SpecError, match="needs a name"):
        WALKS.build({"draws": 3})


@pytest.mark.parametrize("registry", [EXPLAINERS, GROUPS, MEASURES, SCORES, TARGETS, WALKS])
def test_everything_listed_has_a_sentence(registry: object) -> None:
    names = list(registry)  # type: ignore[call-overload]
    assert names
    for name in names:
        assert len(registry[name].summary()) > 10, name  # type: ignore[index]


def test_measures_travel_to_other_processes() -> None:
    cosine = MEASURES["cosine"]
    assert pickle.loads(pickle.dumps(cosine)) is cosine
    own = Measure(name="own", function=torch.subtract, direction=Direction.LOWER, range=(0.0, 1.0))
    assert pickle.loads(pickle.dumps(own)) == own


GOOD = "class Thing:\n    name = 'good'\n\n    @staticmethod\n    def summary():\n        return 'A thing.'\n"
Install = Callable[..., Registry[object]]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """A registry of things, the core's own of which is "own", and distributions that add others: {module: (entry points, code)}."""
    made: list[str] = ["home_of_things"]
    monkeypatch.syspath_prepend(tmp_path)

    def installed(more: str = "", **modules: tuple[dict[str, str], str]) -> Registry[object]:
        for module, (points, code) in modules.items():
            made.append(module)
            (tmp_path / f"{module}.py").write_text(code)
            about = tmp_path / f"{module}-1.0.dist-info"
            about.mkdir()
            (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
            lines = "".join(f"{name} = {value}\n" for name, value in points.items())
            (about / "entry_points.txt").write_text(f"[veracity.things]\n{lines}")
        (tmp_path / "home_of_things.py").write_text("")
        registry: Registry[object] = Registry("thing", "things", "home_of_things", more)
        registry.add(type("Own", (), {"name": "own", "summary": staticmethod(lambda: "My own.")}))
        return registry

    yield installed  # type: ignore[misc]
    for module in made:
        sys.modules.pop(module, None)


def test_names_of_plugins_are_known_without_an_import(install: Install) -> None:
    things = install(good_things=({"good": "good_things:Thing"}, GOOD))
    assert list(things) == ["good", "own"]
    assert "good" in things
    assert "other" not in things
    assert "good_things" not in sys.modules
    assert things["good"].name == "good"  # type: ignore[attr-defined]
    assert "good_things" in sys.modules


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("import nothing_of_this_name", "ModuleNotFoundError: No module named 'nothing_of_this_name'"),
        ("raise RuntimeError('two\\nlines')", "RuntimeError: two lines"),
        ("", "AttributeError: module 'bad_things' has no attribute 'Thing'"),
    ],
)
def test_a_plugin_that_cannot_be_imported_is_one_sentence_and_stops_no_other(code: str, why: str, install: Install) -> None:
    things = install(good_things=({"good": "good_things:Thing"}, GOOD), bad_things=({"bad": "bad_things:Thing"}, code))
    sentence = f"The thing 'bad' of the distribution 'bad_things' cannot be imported ({why}): update or uninstall that distribution."
    with pytest.raises(SpecError) as caught:
        things["bad"]
    assert str(caught.value) == sentence
    with pytest.warns(Note) as told:
        assert [one.name for one in things.values()] == ["good", "own"]
    assert [str(one.message) for one in told] == [sentence]


def test_an_entry_point_has_the_components_name(install: Install) -> None:
    things = install(good_things=({"better": "good_things:Thing"}, GOOD))
    with pytest.raises(SpecError, match=r"The thing 'better' of the distribution 'good_things' is named 'good' in its code"):
        things["better"]


def test_the_core_keeps_its_own_names(install: Install) -> None:
    things = install(good_things=({"own": "good_things:Thing"}, GOOD))
    assert things["own"].__name__ == "Own"  # type: ignore[attr-defined]
    assert list(things) == ["own"]


def test_an_unknown_name_tells_what_to_install_unless_it_is(install: Install) -> None:
    things = install(more="good_things")
    with pytest.raises(SpecError) as caught:
        things["good"]
    assert str(caught.value) == "Unknown thing 'good'. Known: own. Those of published papers come with 'pip install good_things'."
    install(good_things=({}, GOOD))
    with pytest.raises(SpecError, match=r"Unknown thing 'ow'. Did you mean 'own'\? See: veracity ls things"):
        things["ow"]


@pytest.mark.parametrize(("registry", "own"), [(RECIPES, ["symmetry-digits"]), (TRAINERS, ["small_cnn"])])
def test_without_the_papers_their_names_say_what_to_install(
    registry: Registry[object], own: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "_points", {})
    monkeypatch.setattr(registry, "_items", {name: registry[name] for name in own})
    monkeypatch.setattr(registries, "is_installed", lambda name: False)
    assert list(registry) == own
    with pytest.raises(SpecError, match=rf"Unknown {registry.kind} 'x'\. Known: {own[0]}.* 'pip install veracity-papers'\.$"):
        registry["x"]
