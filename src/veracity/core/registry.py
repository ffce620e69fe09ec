"""Names for components: what the command line lists, what an audit file may say, what plugins add."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, Generic, TypeVar

from veracity.core.errors import SpecError, unknown
from veracity.core.settings import Checking, check_settings, shown

T = TypeVar("T")


class Registry(Generic[T]):
    """One kind of component by name; third parties add theirs through the entry point `veracity.<plural>`."""

    def __init__(self, kind: str, plural: str, home: str) -> None:
        self.kind, self.plural, self.home = kind, plural, home
        self._items: dict[str, Any] = {}
        self._complete = False

    def add(self, item: Any) -> Any:
        """Register a class (or an object) under its `name`; works as a decorator."""
        self._items[item.name] = item
        return item

    def __iter__(self) -> Iterator[str]:
        self._load()
        return iter(sorted(self._items))

    def __contains__(self, name: object) -> bool:
        self._load()
        return name in self._items

    def __getitem__(self, name: str) -> Any:
        self._load()
        if name not in self._items:
            raise unknown(self.kind, name, self._items, self.plural)
        return self._items[name]

    def build(self, spec: str | Mapping[str, Any] | T) -> T:
        """A component from its name, from {name, settings}, or the component itself."""
        if isinstance(spec, str):
            spec = {"name": spec}
        if not isinstance(spec, Mapping):
            return spec
        settings = {key: value for key, value in spec.items() if key != "code"}
        name = settings.pop("name", None)
        if not isinstance(name, str):
            raise SpecError(f"Every {self.kind} needs a name, got {shown(dict(spec))}.")
        item = self[name]
        for key in settings:
            if not isinstance(key, str):
                raise SpecError(f"A setting of {self.kind} '{name}' has a name, not {shown(key)}.")
        if not isinstance(item, type):
            chosen: T = item.using(**settings) if settings else item
            return chosen
        values = {key: tuple(value) if isinstance(value, list) else value for key, value in settings.items()}
        built: T = item(**values if isinstance(item, Checking) else check_settings(item, values, f"{self.kind} '{name}'"))
        return built

    def _load(self) -> None:
        if self._complete:
            return
        self._complete = True
        import_module(self.home)
        for point in entry_points(group=f"veracity.{self.plural}"):
            self.add(point.load())


EXPLAINERS: Registry[Any] = Registry("explainer", "explainers", "veracity.explain")
GROUPS: Registry[Any] = Registry("group", "groups", "veracity.perturb")
SPACES: Registry[Any] = Registry("space", "spaces", "veracity.perturb")
"""Spaces without algebra, beside the groups."""
MEASURES: Registry[Any] = Registry("measure", "measures", "veracity.measure")
SCORES: Registry[Any] = Registry("score", "scores", "veracity.interpret")
WALKS: Registry[Any] = Registry("walk", "walks", "veracity.walk")
KERNELS: Registry[Any] = Registry("kernel", "kernels", "veracity.walk")
TARGETS: Registry[Any] = Registry("target", "targets", "veracity.core.targets")
ORBITS: Registry[Any] = Registry("orbit", "orbits", "veracity.perturb")
TASKS: Registry[Any] = Registry("task", "tasks", "veracity.interpret")
RECIPES: Registry[Any] = Registry("recipe", "recipes", "veracity.recipes")
TRAINERS: Registry[Any] = Registry("trainer", "trainers", "veracity.zoo")


HOMES: dict[str, tuple[Registry[Any], ...]] = {
    one.kind: (one,) for one in (EXPLAINERS, MEASURES, SCORES, WALKS, KERNELS, TARGETS, ORBITS, TASKS, TRAINERS)
}
HOMES |= {"group": (GROUPS, SPACES), "space": (GROUPS, SPACES)}
"""Where components are looked up by the role that their class declares."""


def component(role: str, spec: str | Mapping[str, Any]) -> Any:
    """A component of a role from its name or {name, settings}.

    >>> component("space", {"name": "ball", "radius": 0.5}).radius
    0.5
    """
    called = spec.get("name") if isinstance(spec, Mapping) else spec
    homes = HOMES[role]
    return next((home for home in homes if isinstance(called, str) and called in home), homes[0]).build(spec)
