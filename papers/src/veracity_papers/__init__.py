"""Published protocols for veracity: their data sets, their networks with weights, and a recipe for each."""

__version__ = "0.1.0"
