"""Global explanations: feature visualisation and the most activating training examples."""

from veracity.explain.visualise.base import GlobalExplainer
from veracity.explain.visualise.methods import DeepViz, Fourier, Maco, Visualisation
from veracity.explain.visualise.natural import NaturalActivation
