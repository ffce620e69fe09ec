"""The versions that a run folder names."""

from __future__ import annotations

import platform
import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, version

from veracity import __version__

PACKAGES = ("veracity", "torch", "numpy", "scipy", "pandas", "pyarrow", "safetensors")
OPTIONAL = {
    **{name: name for name in ("captum", "shap", "transformers", "tokenizers", "onnxruntime", "xgboost", "lightgbm", "torch_geometric")},
    **{"scikit-learn": "sklearn", "scikit-image": "skimage", "opencv-python-headless": "cv2", "umap-learn": "umap"},
}
"""Packages that only some results depend on, and the module that is imported if one does."""


def versions() -> dict[str, str]:
    """The versions of the packages that a result depends on; of the optional ones, those that were imported."""
    used = {package: module for package, module in OPTIONAL.items() if module in sys.modules}
    every = {**{package: package for package in PACKAGES}, **used}
    return {"python": platform.python_version(), **{package: version_of(package, module) for package, module in every.items()}}


@cache
def version_of(package: str, module: str) -> str:
    """The version of an installed package, or the one that its module says it has."""
    try:
        return version(package)
    except PackageNotFoundError:
        return str(getattr(sys.modules.get(module), "__version__", __version__ if package == "veracity" else "unknown"))
