"""Records of cards, made by hand."""

from __future__ import annotations

from typing import Any

from veracity.cards.questions import QUESTIONS
from veracity.cards.record import CardRecord


def check(word: str, **numbers: Any) -> dict[str, Any]:
    empty = dict.fromkeys(("value", "low", "high", "raw", "reference", "assumed", "more", "unseen"))
    plain = {"check": "deletion", "title": "deletion", "score": "deletion", "line": 0.1, "n": 9, "undefined": 0, "against": "", "why": ""}
    return {**empty, **plain, "word": word, **numbers}


def explainer(name: str, *words: str, control: bool = False, dominated_by: dict[str, float] | None = None) -> dict[str, Any]:
    answers = [
        {
            "question": one.key,
            "word": word,
            "hint": "",
            "sentence": f"{name} on {one.key}.",
            "checks": [check(word, value=0.5, low=0.4, high=0.6, **({"check": "class"} if one.key == "model" else {}))],
        }
        for one, word in zip(QUESTIONS, words, strict=not control)
    ]
    out = words[0] == "falls short"
    alone = None if out else 1.0
    return {"name": name, "control": control, "out": out, "answers": answers, "undominated": alone, "dominated_by": dominated_by or {}}


def record(*explainers: dict[str, Any], **changes: Any) -> CardRecord:
    own = [one["name"] for one in explainers if not one["control"] and not one["out"] and not one["dominated_by"]]
    use = {"key": "debugging", "title": "Debugging the model", "why": "Why.", "questions": ["model", "faithful"]}
    content = {
        "card": "veracity-card/1", "title": "Which?", "model": "net", "accuracy": 0.9, "majority": 0.1, "modality": "images", "samples": 32,
        "available": 100, "seed": 0, "budget": "1m", "confidence": 0.95, "comparisons": 100, "level": 0.9995, "margin": 0.05, "noise": 0.01,
        "radius": None, "symmetries": ["cyclic shift"], "explainers": list(explainers), "undominated": own, "notes": [], "left_out": {},
        "questions": [{key: getattr(one, key) for key in ("number", "key", "title", "about", "rule")} for one in QUESTIONS],
        "uses": [{**use, "fit": own, "open": [], "unfit": []}], "orders": [], "versions": {"veracity": "0"},
        "truth": [{"score": "deletion", "rho": 0.76, "low": 0.62, "high": 0.82}],
        **changes,
    }  # fmt: skip
    return CardRecord.model_validate(content)
