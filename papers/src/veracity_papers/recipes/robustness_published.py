"""What the robustness paper published: its Tables 6, 7 and 8, whose figures stand beside ours under our labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from veracity_papers.recipes.robustness_methods import MEASURED, METHODS

Figures = Mapping[str, tuple[tuple[float, ...], ...]]

TABLE_6 = {
    "lime+50": (0.0002, 0.9886, -0.46, -12.96),
    "lime+200": (6.88e-05, 0.9350, -0.37, -14.59),
    "lime+500": (8.59e-06, 0.8360, -0.31, -16.98),
    "shap+50": (4.11e-05, 0.9648, -0.36, -14.78),
    "shap+200": (0.0011, 0.9708, -0.39, -14.44),
    "shap+500": (0.0005, 0.9851, -0.34, -14.41),
}
"""Table 6, MNIST: sol_F-hat, sol_F-tilde, ln P_F-hat and ln P_F-tilde by explainer and its number of samples."""

TABLE_7 = {"lime+200, fixed": (0.3632, 0.8892, -34.22, -17.38)}
"""Table 7, MNIST: the same four for superpixels that stay those of the unperturbed image."""

TABLE_8: Figures = {
    "resnet20": (
        (0.0166, 0.0375, 0.0044, 0.0212),
        (0.8562, 0.8308, 0.8079, 0.8551),
        (-20.32, -45.05, -35.93, -21.22),
        (-80.73, -87.64, -68.27, -81.81),
    ),
    "mobile": (
        (0.0552, 0.1167, 0.0523, 0.0712),
        (0.7689, 0.7885, 0.7085, 0.7707),
        (-12.75, -34.99, -16.01, -8.70),
        (-70.32, -62.19, -82.17, -68.38),
    ),
    "vgg": (
        (0.0767, 0.1227, 0.1133, 0.0206),
        (0.7813, 0.8240, 0.8637, 0.8358),
        (-14.42, -53.48, -47.52, -44.25),
        (-59.74, -54.155, -49.90, -66.02),
    ),
}
"""Table 8, CIFAR-10: for each network the four figures, each for the four explainers; "mobile" is MobileNetV2 there, "vgg" VGG16."""

THERE = {"resnet20": "ResNet20", "mobile": "MobileNetV2", "vgg": "VGG16"}


def by_network(model: str, explainers: tuple[str, ...] = METHODS) -> list[dict[str, Any]]:
    """The figures of Table 8 for some explainers of a network, if it has any.

    >>> by_network("resnet20")[0]["where"], len(by_network("vgg")), by_network("resnet32")
    ('Table 8, ResNet20', 16, [])
    """
    return [
        entry(model, explainer, score, value, f"Table 8, {THERE[model]}")
        for score, values in zip(MEASURED, TABLE_8.get(model, ()), strict=False)
        for explainer, value in zip(METHODS, values, strict=True)
        if explainer in explainers
    ]


def by_explainer(model: str, table: Mapping[str, tuple[float, ...]], where: str) -> list[dict[str, Any]]:
    """The figures of Table 6 or 7 under a model's label.

    >>> by_explainer("lenet", TABLE_7, "Table 7")[2]
    {'model': 'lenet', 'explainer': 'lime+200, fixed', 'score': 'ln_p_f_hat', 'value': -34.22, 'where': 'Table 7'}
    """
    return [
        entry(model, explainer, score, value, where)
        for explainer, values in table.items()
        for score, value in zip(MEASURED, values, strict=True)
    ]


def entry(model: str, explainer: str, score: str, value: float, where: str) -> dict[str, Any]:
    """One figure."""
    return {"model": model, "explainer": explainer, "score": score, "value": value, "where": where}
