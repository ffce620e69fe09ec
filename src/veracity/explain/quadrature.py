"""Rules for the integral along a line: where they look, and how much each point weighs."""

from __future__ import annotations

from captum.attr._utils.approximation_methods import approximation_parameters

from veracity.core.errors import SpecError, unknown

TRAPEZOID = "trapezoid"
QUADRATURES = ("gausslegendre", "riemann_left", "riemann_middle", "riemann_right", "riemann_trapezoid", TRAPEZOID)


def captums(method: str, steps: int) -> tuple[str, float]:
    """Captum's name of a rule, and what its sum is multiplied by.

    `riemann_trapezoid` divides m points, which leave m - 1 intervals, by m, so that its weights add up to (m - 1) / m;
    `trapezoid` is the rule itself, whose weights add up to 1.

    >>> captums("trapezoid", 60), captums("riemann_left", 60)
    (('riemann_trapezoid', 1.0169491525423728), ('riemann_left', 1.0))
    """
    return ("riemann_trapezoid", steps / (steps - 1)) if method == TRAPEZOID else (method, 1.0)


def points_and_weights(method: str, steps: int) -> tuple[list[float], list[float]]:
    """Shares of the way from the baseline to the input, and the weights of the slopes there.

    >>> points_and_weights("trapezoid", 3)
    ([0.0, 0.5, 1.0], [0.25, 0.5, 0.25])
    """
    name, factor = captums(method, steps)
    weights, points = approximation_parameters(name)
    return points(steps), [factor * weight for weight in weights(steps)]


def check_quadrature(name: str, method: str, steps: int) -> None:
    """Raise unless there is such a rule with as many points."""
    if method not in QUADRATURES:
        raise unknown(f"method of {name}", method, QUADRATURES)
    if method != "gausslegendre" and steps < 2:
        raise SpecError(f"The rule '{method}' of {name} needs at least 2 steps, not {steps}: use more, or method='gausslegendre'.")
