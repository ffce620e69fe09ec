"""Errors as one sentence: JSON for a program, a page for a person who opened an address in a browser."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from starlette.responses import Response

from veracity.report.html import csp_hash
from veracity.report.interactive.packed import encoded

STYLE = (
    "body{max-width:40rem;margin:14vh auto;padding:0 20px;font:16px/1.5 system-ui,sans-serif;color-scheme:light dark}"
    "h1{font-size:1.3rem}code{white-space:nowrap}"
)
POLICY = f"default-src 'none'; img-src data:; style-src '{csp_hash(STYLE)}'; base-uri 'none'; form-action 'none'"
TITLES = {
    400: "Not served here",
    401: "This page needs the token",
    403: "Refused",
    404: "Nothing here",
    405: "Only reading is possible",
    409: "This cannot be read",
}
HELP = {
    401: (
        "The whole address ends with <code>?token=…</code>.",
        "If the terminal is closed, run <code>veracity app</code> on the same folder again: it prints the address.",
    ),
    404: ("Open the address that <code>veracity app</code> printed, which lists every run there is.",),
}


def as_sentence(sentence: str, status: int, accept: str, headers: Mapping[str, str] = {}) -> Response:
    """An error as the client can read it; `accept` is what it said that it reads."""
    kept = {**headers, "cache-control": "no-store"}
    if "text/html" not in accept:
        return Response(encoded({"error": sentence}), status, kept, "application/json")
    title, lines = TITLES.get(status, "This did not work"), "".join(f"<p>{line}</p>" for line in HELP.get(status, ()))
    page = (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<link rel="icon" href="data:,"><title>{title} · veracity</title><style>{STYLE}</style></head>'
        f"<body><main><h1>{title}</h1><p>{escape(sentence)}</p>{lines}</main></body></html>"
    )
    return Response(page, status, {**kept, "content-security-policy": POLICY}, "text/html; charset=utf-8")
