"""Registries of components by name, which plugins extend through entry points; and objects by `module:attribute`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from importlib import import_module
from importlib.metadata import EntryPoint, PackageNotFoundError, distribution, entry_points
from typing import Any, Generic, TypeVar

from veracity.core.errors import SpecError, error_text, unknown, warn
from veracity.core.settings import Checking, check_settings, short_repr

T = TypeVar("T")


class Registry(Generic[T]):
    """Components of one kind by name; other distributions add theirs through entry points of the group `veracity.<plural>`.

    Names of entry points are known without importing them; a component is imported when it is looked up. Names of this package
    take precedence. `more` is a distribution with further components, which the error for an unknown name suggests to install.
    """

    def __init__(self, kind: str, plural: str, home: str, more: str = "") -> None:
        self.kind, self.plural, self.home, self.more = kind, plural, home, more
        self._items: dict[str, Any] = {}

    def add(self, item: Any) -> Any:
        """Register a class (or an object) under its `name`; works as a decorator."""
        self._items[item.name] = item
        return item

    def __iter__(self) -> Iterator[str]:
        return iter(sorted({*self.own(), *self._points}))

    def __contains__(self, name: object) -> bool:
        return name in self.own() or name in self._points

    def __getitem__(self, name: str) -> Any:
        if name in self.own():
            return self._items[name]
        if name in self._points:
            return self.add(self._load(self._points[name]))
        if self.more and not is_installed(self.more):
            raise SpecError(
                f"Unknown {self.kind} {short_repr(name)}. Known: {', '.join(self)}. Those of published papers come with "
                f"'pip install {self.more}'."
            )
        raise unknown(self.kind, name, self, self.plural)

    def values(self) -> Iterator[Any]:
        """Every component in the order of names; warns about those that cannot be imported."""
        for name in self:
            try:
                yield self[name]
            except SpecError as error:
                warn(str(error))

    def build(self, spec: str | Mapping[str, Any] | T) -> T:
        """A component from its name, from {name, settings} or from its class; a component is returned as it is."""
        if isinstance(spec, Checking):
            made: T = spec()
            return made
        if isinstance(spec, str):
            spec = {"name": spec}
        if not isinstance(spec, Mapping):
            return spec
        settings = {key: value for key, value in spec.items() if key != "code"}
        name = settings.pop("name", None)
        if not isinstance(name, str):
            raise SpecError(f"Every {self.kind} needs a name, got {short_repr(dict(spec))}.")
        item = self[name]
        for key in settings:
            if not isinstance(key, str):
                raise SpecError(f"The name of a setting of {self.kind} '{name}' must be text, not {short_repr(key)}.")
        if not isinstance(item, type):
            chosen: T = item.using(**settings) if settings else item
            return chosen
        values = {key: tuple(value) if isinstance(value, list) else value for key, value in settings.items()}
        built: T = item(**values if isinstance(item, Checking) else check_settings(item, values, f"{self.kind} '{name}'"))
        return built

    def own(self) -> dict[str, Any]:
        """The components of this package by name."""
        import_module(self.home)
        return self._items

    @cached_property
    def _points(self) -> dict[str, EntryPoint]:
        return {point.name: point for point in reversed(tuple(entry_points(group=f"veracity.{self.plural}")))}

    def _load(self, point: EntryPoint) -> Any:
        whose = f"The {self.kind} '{point.name}' of the distribution '{point.dist.name if point.dist else point.module}'"
        try:
            item = point.load()
        except Exception as error:
            why = " ".join(error_text(error).split())[:200]
            raise SpecError(f"{whose} cannot be imported ({why}): update or uninstall that distribution.") from error
        if getattr(item, "name", None) != point.name:
            raise SpecError(f"{whose} is named {short_repr(getattr(item, 'name', None))} in its code: name its entry point the same.")
        return item


def is_installed(name: str) -> bool:
    """Whether a distribution is installed."""
    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True


EXPLAINERS: Registry[Any] = Registry("explainer", "explainers", "veracity.explain")
GROUPS: Registry[Any] = Registry("group", "groups", "veracity.perturb")
SPACES: Registry[Any] = Registry("space", "spaces", "veracity.perturb")
"""Spaces without algebra, beside the groups."""
MEASURES: Registry[Any] = Registry("measure", "measures", "veracity.measure")
SCORES: Registry[Any] = Registry("score", "scores", "veracity.scores")
WALKS: Registry[Any] = Registry("walk", "walks", "veracity.walk")
KERNELS: Registry[Any] = Registry("kernel", "kernels", "veracity.walk")
ACTIONS: Registry[Any] = Registry("output action", "actions", "veracity.perturb")
"""How outputs move when inputs do."""
TARGETS: Registry[Any] = Registry("target", "targets", "veracity.core.dense_targets")
ORBITS: Registry[Any] = Registry("orbit", "orbits", "veracity.orbits")
TASKS: Registry[Any] = Registry("task", "tasks", "veracity.orbits")
RECIPES: Registry[Any] = Registry("recipe", "recipes", "veracity.demo", more="veracity-papers")
TRAINERS: Registry[Any] = Registry("trainer", "trainers", "veracity.trainers", more="veracity-papers")
MODELS: Registry[Any] = Registry("model adapter", "models", "veracity.models")
"""Adapters for models of other libraries."""
EXECUTORS: Registry[Any] = Registry("executor", "executors", "veracity.engine.executors")
FIGURES: Registry[Any] = Registry("figure", "figures", "veracity.report.registered")
"""Figures of the report, which scores name in `figures`."""
RENDERERS: Registry[Any] = Registry("renderer", "renderers", "veracity.report.registered")
"""What makes a page of a result, by the kind of the result."""


REGISTRIES: dict[str, tuple[Registry[Any], ...]] = {
    one.kind: (one,) for one in (EXPLAINERS, MEASURES, SCORES, WALKS, KERNELS, ACTIONS, TARGETS, ORBITS, TASKS, TRAINERS, EXECUTORS)
}
REGISTRIES |= {"group": (GROUPS, SPACES), "space": (GROUPS, SPACES)}
"""The registries of each role."""


def build_component(role: str, spec: str | Mapping[str, Any]) -> Any:
    """A component of a role from its name or from {name, settings}.

    >>> build_component("space", {"name": "ball", "radius": 0.5}).radius
    0.5
    """
    called = spec.get("name") if isinstance(spec, Mapping) else spec
    homes = REGISTRIES[role]
    return next((home for home in homes if isinstance(called, str) and called in home), homes[0]).build(spec)


def import_object(path: str) -> Any:
    """The object at "module:attribute", whose attribute may contain dots; raises with a suggestion if there is none.

    >>> import_object("math:pi")
    3.141592653589793
    """
    module_name, _, attribute = path.partition(":")
    if not attribute or not module_name or module_name.startswith("."):
        raise SpecError(f"'{path}' must have the form module:name.")
    try:
        value: Any = import_module(module_name)
    except Exception as error:  # the user's module may raise anything
        raise SpecError(f"Cannot import '{module_name}' for '{path}': {' '.join(str(error).split())[:200]}.") from error
    for part in attribute.split("."):
        if not hasattr(value, part):
            raise unknown(f"name in {module_name}:", part, [key for key in dir(value) if not key.startswith("_")])
        value = getattr(value, part)
    return value
