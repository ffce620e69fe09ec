"""Links inside reports. A report is shown in a frame that can run nothing and knows no token, so that its links would be refused. Links to
the reports of other runs here get a key each, which opens that one page and nothing else.
"""

from __future__ import annotations

import hashlib
import hmac
import posixpath
import re
from collections.abc import Callable
from html import escape
from html.parser import HTMLParser
from urllib.parse import quote, unquote, urlsplit

RELATIVE = re.compile(r"<a\s[^>]*href\s*=\s*[\"']?(?![#\"'>\s])", re.IGNORECASE)
"""A link that leads out of its page; most reports have none, and need no reading."""
Address = Callable[[str], str | None]
"""From the path of a file below the directory to the address that shows it, or None."""


def report_path(name: str) -> str:
    """The path of a run's report on the server, by the run's name.

    >>> report_path("joint/a b")
    '/api/runs/joint%2Fa%20b/report'
    """
    return f"/api/runs/{quote(name, safe='')}/report"


def key_of(token: str, path: str) -> str:
    """The key that opens one path of the server; it tells nothing about the token."""
    return hmac.new(token.encode(), path.encode(), hashlib.sha256).hexdigest()


def with_links(page: str, folder: str, address: Address) -> str:
    """A page of a folder (a path below the directory) whose links to files lead to their addresses, where they have one.

    >>> with_links('<p><a href="one/report.html">One</a>', "joint", lambda path: f"/shown?{path}" if "one" in path else None)
    '<p><a href="/shown?joint/one/report.html">One</a>'
    """
    if not RELATIVE.search(page):
        return page
    found = Links(page, folder, address)
    found.feed(page)
    found.close()
    return found.page()


class Links(HTMLParser):
    """Finds the links of a page, and puts others in their places; everything else stays as it was."""

    def __init__(self, page: str, folder: str, address: Address) -> None:
        super().__init__(convert_charrefs=True)
        self._page, self._folder, self._address = page, folder, address
        self._starts = [0]
        for line in page.split("\n"):
            self._starts.append(self._starts[-1] + len(line) + 1)
        self._changes: list[tuple[int, int, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note a link that leads to a file with an address."""
        given = dict(reversed(attrs)).get("href") if tag == "a" else None
        if (shown := self._shown(given)) is None:
            return
        line, column = self.getpos()
        start = self._starts[line - 1] + column
        kept = "".join(f' {name}="{escape(value or "")}"' for name, value in attrs if name != "href")
        self._changes.append((start, start + len(self.get_starttag_text() or ""), f'<a href="{escape(shown)}"{kept}>'))

    def page(self) -> str:
        """The page with its new links."""
        parts, at = [], 0
        for start, stop, text in self._changes:
            parts += [self._page[at:start], text]
            at = stop
        return "".join((*parts, self._page[at:]))

    def _shown(self, link: str | None) -> str | None:
        """The address of what a link leads to, if it is a relative one."""
        try:
            parts = urlsplit(link or "")
        except ValueError:
            return None
        if parts.scheme or parts.netloc or not parts.path or parts.path.startswith("/"):
            return None
        found = self._address(posixpath.normpath(posixpath.join(self._folder, unquote(parts.path, errors="surrogateescape"))))
        return f"{found}#{parts.fragment}" if found and parts.fragment else found
