"""Advice: which assumption of an explanation's robustness fails, what to change, and what the change gains."""

from veracity.advice.procedure import Advice, advise

__all__ = ["Advice", "advise"]
