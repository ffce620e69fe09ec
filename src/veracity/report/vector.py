"""Figures of the page as flat drawings of shapes and texts, which are written as SVG, PDF or PNG.

On a page, a figure is HTML with inline SVG: percentages, nested frames, colours by CSS. Other programs do not understand that. So the
figure is laid out here at one width, colours are looked up in the page's own style sheet, and what is left are paths in pixels with
plain attributes. It knows what figures are made of: charts of rows, grids of plots, legends and texts.
"""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from veracity.core.errors import SpecError, missing_extra
from veracity.report.html import own_file

WIDTH, MARGIN = 890.0, 10.0
NAME, STRIP, APART = 190.0, 400.0, 20.0
"""The first two columns of a chart, and the room between columns."""
FACET, INDENT = 270.0, 37.0
"""The width of a small plot, and the room to its left for the numbers of the axis."""
LINE, LETTER = 16.0, 0.56
"""The height of a line of text, and the mean width of a letter in sizes of the font."""
SMALL, NORMAL = 11.8, 13.1
INHERITED = ("fill", "stroke", "stroke-width", "stroke-opacity", "fill-opacity", "stroke-dasharray", "stroke-linecap", "stroke-linejoin")
TEXTUAL = ("font-size", "font-weight", "text-anchor")
KAPPA = 0.5522847498
"""How far the handles of a curve lie from its ends, for a quarter of a circle."""
TALL = 1.0e5
DOT = 0.05

Style = dict[str, str]
Box = tuple[float, float, float, float]
Step = tuple[str, tuple[float, ...]]


@dataclass
class Node:
    """An element of the figure's HTML; a text has the tag ""."""

    tag: str
    attributes: dict[str, str] = field(default_factory=dict)
    children: list[Node] = field(default_factory=list)
    content: str = ""

    @property
    def classes(self) -> set[str]:
        """Its CSS classes."""
        return set(self.attributes.get("class", "").split())

    def find(self, wanted: Callable[[Node], bool]) -> Iterator[Node]:
        """Itself and everything in it that is wanted, but nothing within what was found."""
        if wanted(self):
            yield self
        else:
            for child in self.children:
                yield from child.find(wanted)

    def text(self) -> str:
        """All texts in it but those of drawings."""
        inner = "" if self.tag == "svg" else "".join(child.text() for child in self.children)
        return " ".join((self.content + inner).split()) if self.tag else self.content


class Reader(HTMLParser):
    """Reads the figure's HTML into nodes."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Node("figure")
        self.open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Open an element."""
        self.handle_startendtag(tag, attrs)
        self.open.append(self.open[-1].children[-1])

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Add an element without content."""
        self.open[-1].children.append(Node(tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        """Close an element."""
        if len(self.open) > 1 and self.open[-1].tag == tag:
            self.open.pop()

    def handle_data(self, data: str) -> None:
        """Add a text."""
        self.open[-1].children.append(Node("", content=data))


@dataclass(frozen=True)
class Rule:
    """A rule of the style sheet: tags and classes from the outermost to the element itself."""

    path: tuple[tuple[str, frozenset[str]], ...]
    style: Style

    def weight(self) -> tuple[int, int]:
        """How much the rule counts against others."""
        return sum(len(classes) for _, classes in self.path), sum(bool(tag) for tag, _ in self.path)

    def fits(self, line: Sequence[Node]) -> bool:
        """Whether the rule is about the last node of a line of ancestors."""
        nodes, wanted = list(line), list(self.path)
        if not alike(nodes.pop(), *wanted.pop()):
            return False
        while wanted and nodes:
            if alike(nodes.pop(), *wanted[-1]):
                wanted.pop()
        return not wanted


def alike(node: Node, tag: str, classes: frozenset[str]) -> bool:
    """Whether a node has this tag, if one is asked for, and these classes."""
    return (not tag or node.tag == tag) and classes <= node.classes


@cache
def sheet() -> tuple[list[Rule], Style, Style]:
    """The rules of the page's style sheet, lightest first, and its variables in light and in dark."""
    text = own_file("style.css")
    roots = re.findall(r":root\s*\{([^{}]*)\}", text)
    light, dark = (dict(declarations(root)) for root in roots[:2])
    plain = re.sub(r"@media[^{]*\{(?:[^{}]*\{[^{}]*\})*[^{}]*\}", "", text)
    rules = []
    for selectors, body in re.findall(r"([^{}]+)\{([^{}]*)\}", plain):
        for selector in selectors.split(","):
            found = [re.fullmatch(r"([a-z]*)((?:\.[\w-]+)*)", part) for part in selector.split()]
            if found and all(found):
                path = tuple((one[1], frozenset(filter(None, one[2].split(".")))) for one in found if one)
                rules.append(Rule(path, dict(declarations(body))))
    return sorted(rules, key=Rule.weight), light, dark


def declarations(body: str) -> Iterator[tuple[str, str]]:
    """The properties of a rule.

    >>> list(declarations("fill: none; stroke: var(--c) !important;"))
    [('fill', 'none'), ('stroke', 'var(--c)')]
    """
    for part in body.split(";"):
        if ":" in part:
            name, value = part.split(":", 1)
            yield name.strip(), value.replace("!important", "").strip()


@dataclass(frozen=True)
class Shape:
    """A path in pixels with its look; `clip` is the box (left, top, width, height) beyond which it is not drawn."""

    steps: tuple[Step, ...]
    style: Style
    clip: Box | None = None


@dataclass(frozen=True)
class Label:
    """A text at a place on its base line."""

    x: float
    y: float
    text: str
    size: float
    colour: str
    anchor: str = "start"
    bold: bool = False


@dataclass
class Flat:
    """A flat drawing: its size, and what is on it from back to front."""

    width: float = WIDTH
    height: float = 0.0
    items: list[Shape | Label] = field(default_factory=list)

    def svg(self, *, paper: bool = False, label: str = "") -> str:
        """The drawing as SVG; with its own `paper` it has a ground, and follows a dark theme."""
        wide = self.width + 2 * MARGIN
        size = f'width="{wide:g}" height="{self.height:g}" viewBox="{-MARGIN:g} 0 {wide:g} {self.height:g}"'
        start = f'<svg xmlns="http://www.w3.org/2000/svg" class="veracity-figure" role="img" aria-label={quoteattr(label)} {size}>'
        ground = [dark_rules(), f'<rect x="{-MARGIN:g}" width="100%" height="100%" fill="{sheet()[1]["--paper"]}"/>'] if paper else []
        return "\n".join([start, *ground, *map(svg_of, self.items), "</svg>\n"])

    def save(self, path: Path, kind: str) -> None:
        """Write the drawing by matplotlib, as "png" or "pdf"."""
        try:
            from matplotlib.figure import Figure
            from matplotlib.patches import PathPatch, Rectangle
            from matplotlib.path import Path as Outline
        except ModuleNotFoundError as error:
            raise missing_extra("matplotlib", "figures") from error
        codes = {"M": [Outline.MOVETO], "L": [Outline.LINETO], "C": [Outline.CURVE4] * 3, "Z": [Outline.CLOSEPOLY]}
        page = Figure(figsize=((self.width + 2 * MARGIN) / 96, self.height / 96), facecolor="white")
        plot = page.add_axes((0, 0, 1, 1))
        plot.set(xlim=(-MARGIN, self.width + MARGIN), ylim=(self.height, 0))
        plot.axis("off")
        for place, item in enumerate(self.items):
            if isinstance(item, Label):
                side = {"middle": "center", "end": "right"}.get(item.anchor, "left")
                weight = "bold" if item.bold else "normal"
                look: dict[str, Any] = {"fontsize": 0.75 * item.size, "color": item.colour, "ha": side, "weight": weight, "zorder": place}
                plot.text(item.x, item.y, item.text.replace("$", r"\$"), family="DejaVu Sans", va="baseline", **look)
                continue
            outline: list[tuple[float, float]] = []
            moves: list[Any] = []
            for command, numbers in item.steps:
                pairs = list(zip(numbers[::2], numbers[1::2], strict=True)) or outline[-1:]
                dot = command == "L" and pairs == outline[-1:]  # matplotlib draws nothing of a line without length
                outline += [(pairs[0][0] + DOT, pairs[0][1])] if dot else pairs
                moves += codes[command]
            drawn = PathPatch(Outline(outline, moves), zorder=place, **painted(item.style))
            plot.add_patch(drawn)
            if item.clip is not None:
                drawn.set_clip_path(Rectangle(item.clip[:2], *item.clip[2:], transform=plot.transData))
        page.savefig(path, format=kind, dpi=192, metadata={"CreationDate": None} if kind == "pdf" else None)


def painted(style: Style) -> dict[str, Any]:
    """The look of a path for matplotlib."""
    from matplotlib.colors import to_rgba

    fill, stroke = style.get("fill", "black"), style.get("stroke", "none")
    dashes = [0.75 * float(part) for part in style.get("stroke-dasharray", "").split()]
    width = 0.75 * float(style.get("stroke-width", "1").removesuffix("px"))
    return {
        "facecolor": to_rgba(fill, float(style.get("fill-opacity", 1))) if fill != "none" else "none",
        "edgecolor": to_rgba(stroke, float(style.get("stroke-opacity", 1))) if stroke != "none" else "none",
        "linewidth": width if stroke != "none" else 0.0,
        "linestyle": (0, dashes) if dashes else "solid",
        "capstyle": style.get("stroke-linecap", "butt"),
    }


def svg_of(item: Shape | Label) -> str:
    """A shape or a text as SVG."""
    if isinstance(item, Label):
        look = f'font-family="system-ui, sans-serif" font-size="{item.size:g}" fill="{item.colour}" text-anchor="{item.anchor}"'
        weight = ' font-weight="600"' if item.bold else ""
        return f'<text x="{item.x:.2f}" y="{item.y:.2f}" {look}{weight}>{escape(item.text)}</text>'
    outline = "".join(command + " ".join(f"{number:.2f}" for number in numbers) for command, numbers in item.steps)
    path = f'<path d="{outline}" {" ".join(f"{name}={quoteattr(value)}" for name, value in item.style.items())}/>'
    if item.clip is None:
        return path
    left, top, width, height = (f"{number:.2f}" for number in item.clip)
    return f'<svg x="{left}" y="{top}" width="{width}" height="{height}" viewBox="{left} {top} {width} {height}">{path}</svg>'


def dark_rules() -> str:
    """The rules that turn every colour of the light theme into that of the dark one."""
    _, light, dark = sheet()
    pairs = {light[name]: value for name, value in dark.items() if value.startswith("#") and light.get(name, "").startswith("#")}
    rules = (f'.veracity-figure [{what}="{old}"]{{{what}:{new}}}' for old, new in pairs.items() for what in ("fill", "stroke"))
    return f"<style>@media (prefers-color-scheme: dark){{{''.join(rules)}}}</style>"


@dataclass(frozen=True)
class View:
    """Where user units lie on the page: the origin, the scale along both axes, and the size of the frame in user units."""

    left: float
    top: float
    across: float = 1.0
    down: float = 1.0
    width: float = WIDTH
    height: float = TALL
    clip: Box | None = None

    def x(self, value: str) -> float:
        """A horizontal place on the page."""
        return self.left + self.across * length(value, self.width)

    def y(self, value: str) -> float:
        """A vertical place on the page."""
        return self.top + self.down * length(value, self.height)


def length(value: str, whole: float) -> float:
    """A length in user units.

    >>> length("25%", 80.0), length("3px", 80.0)
    (20.0, 3.0)
    """
    return whole * float(value[:-1]) / 100.0 if value.endswith("%") else float(value.removesuffix("px"))


def size_of(value: str, whole: float) -> float:
    """The size of a font in pixels."""
    return 16.0 * float(value[:-3]) if value.endswith("rem") else float(value[:-2]) if value.endswith("px") else whole


class Layout:
    """Lays out one figure from top to bottom."""

    def __init__(self) -> None:
        self.flat = Flat()
        self.rules, self.light, _ = sheet()
        self.ink, self.quiet = self.light["--ink"], self.light["--quiet"]
        self.y = 12.0

    def write(self, text: str, *, size: float = NORMAL, bold: bool = False, quiet: bool = False, width: float = WIDTH) -> None:
        """Add a paragraph."""
        for line in wrapped(text, width, size):
            self.flat.items.append(Label(0.0, self.y + LINE - 4, line, size, self.quiet if quiet else self.ink, bold=bold))
            self.y += LINE + 2
        self.y += 4

    def add(self, node: Node, line: tuple[Node, ...] = ()) -> None:
        """Add whatever a node is."""
        within, classes = (*line, node), node.classes
        if node.tag in ("table", "img"):
            raise SpecError("This figure holds tables or pictures, which only a page can show: save it as .html.")
        if "chart" in classes:
            self.chart(node, within)
        elif "facets" in classes:
            self.facets(node, within)
        elif "legend" in classes:
            self.legend(node, within)
        elif node.tag in ("p", "h3", "h4", "summary"):
            self.write(node.text(), size=SMALL, quiet="note" in classes, bold=node.tag != "p")
        elif node.tag == "svg":
            height = length(node.attributes.get("height", "150"), 150.0)
            self.draw(node, line, View(0.0, self.y))
            self.y += height + 10
        else:
            for child in node.children:
                self.add(child, within)

    def legend(self, node: Node, line: tuple[Node, ...]) -> None:
        """Signs with their texts, in as many lines as they need."""
        x = 0.0
        for item in node.find(lambda one: one.tag == "li"):
            sign = next(item.find(lambda one: one.tag == "svg"), None)
            wide = length(sign.attributes["width"], WIDTH) + 7 if sign is not None else 0.0
            text = item.text()
            whole = wide + LETTER * SMALL * len(text) + 20
            if x and x + whole > WIDTH:
                x, self.y = 0.0, self.y + LINE + 3
            if sign is not None:
                self.draw(sign, (*line, item), View(x, self.y + 8 - length(sign.attributes["height"], 16.0) / 2))
            self.flat.items.append(Label(x + wide, self.y + 12, text, SMALL, self.ink))
            x += whole
        self.y += LINE + 8

    def chart(self, node: Node, line: tuple[Node, ...]) -> None:
        """Rows of a name, a strip and its numbers."""
        for row in node.find(lambda one: "row" in one.classes):
            above, strip = (*line, row), next(row.find(lambda one: one.tag == "svg" and "strip" in one.classes))
            height = max(length(strip.attributes["height"], 18.0), 18.0)
            head = bool(row.classes & {"head", "foot"})
            middle = self.y + height / 2
            self.name(next(row.find(lambda one: "name" in one.classes)), above, middle, bold="group" in row.classes)
            self.draw(strip, above, View(NAME + APART, self.y, width=STRIP, height=height))
            reads = [span for span in row.find(tagged("span")) if any(span.find(tagged("b")))]
            for place, read in enumerate(reads):
                at = middle + LINE * (place - (len(reads) - 1) / 2) + 4
                main, more = (next(read.find(tagged(tag))).text() for tag in ("b", "i"))
                right = NAME + STRIP + 2 * APART + 54
                size, colour = (SMALL, self.quiet) if head else (NORMAL, self.ink)
                self.flat.items.append(Label(right, at, main, size, colour, anchor="end"))
                self.flat.items.append(Label(right + 12, at, more, SMALL, self.quiet))
            self.y += height
        self.y += 6

    def name(self, node: Node, line: tuple[Node, ...], middle: float, *, bold: bool) -> None:
        """The name of a row, with a mark in front if it has one."""
        sign = next(node.find(lambda one: one.tag == "svg"), None)
        if sign is not None:
            self.draw(sign, (*line, node), View(0.0, middle - 6))
        lines = wrapped(node.text(), NAME - 18, NORMAL, lines=2)
        for place, text in enumerate(lines):
            at = middle + 4 + 14 * (place - (len(lines) - 1) / 2)
            self.flat.items.append(Label(18.0 if sign is not None else 0.0, at, text, NORMAL, self.ink, bold=bold))

    def facets(self, node: Node, line: tuple[Node, ...]) -> None:
        """Small plots side by side, each with its title above and its texts below."""
        wide = 1.5 * FACET if "broad" in node.classes else FACET
        columns, plots = int(WIDTH // wide), list(node.find(lambda one: "facet" in one.classes))
        for start in range(0, len(plots), columns):
            below = self.y
            for place, plot in enumerate(plots[start : start + columns]):
                left, y = place * wide, self.y
                inner = wide - INDENT - APART
                for text in wrapped(next(plot.find(lambda one: one.tag == "figcaption")).text(), inner + INDENT, NORMAL):
                    y += LINE
                    self.flat.items.append(Label(left, y, text, NORMAL, self.ink, bold=True))
                drawing = next(plot.find(lambda one: one.tag == "svg" and "key" not in one.classes), None)
                if drawing is None:
                    raise SpecError("This figure holds tables or pictures, which only a page can show: save it as .html.")
                height = length(drawing.attributes.get("height", "150"), 150.0)
                self.draw(drawing, (*line, plot), View(left + INDENT, y + 10, width=inner, height=height))
                y += height + 10 + 22
                for caption in plot.find(lambda one: one.tag == "p"):
                    sign = next(caption.find(lambda one: one.tag == "svg"), None)
                    if sign is not None:
                        self.draw(sign, (*line, plot, caption), View(left + INDENT, y + 4))
                    for text in wrapped(caption.text(), inner - 18, SMALL):
                        y += LINE
                        self.flat.items.append(Label(left + INDENT + (18 if sign is not None else 0), y - 2, text, SMALL, self.quiet))
                below = max(below, y)
            self.y = below + 20

    def draw(self, node: Node, line: tuple[Node, ...], view: View, given: Style | None = None) -> None:
        """Draw an element of SVG and everything in it."""
        if not node.tag or node.tag in ("title", "desc"):
            return
        within, own = (*line, node), node.attributes
        style = dict(given or self.inherited(line))
        for rule in self.rules:
            if rule.fits(within):
                style |= rule.style
        style |= {name: own[name] for name in (*INHERITED, *TEXTUAL) if name in own and name not in style}
        if "text-anchor" in own:
            style["text-anchor"] = own["text-anchor"]
        if node.tag == "text":
            size = size_of(style.get("font-size", ""), SMALL)
            colour = self.resolved(style, "fill", self.ink)
            label = Label(view.x(own["x"]), view.y(own["y"]), node.text(), size, colour, style.get("text-anchor", "start"))
            self.flat.items.append(label)
            return
        steps = outline_of(node, view)
        if steps:
            look = {name: self.resolved(style, name, "") for name in INHERITED if name in style}
            self.flat.items.append(Shape(steps, look, view.clip))
        inner = framed(node, view) if node.tag == "svg" else view
        passed = {name: value for name, value in style.items() if name.startswith("--") or name in (*INHERITED, *TEXTUAL)}
        for child in node.children:
            self.draw(child, within, inner, passed)

    def inherited(self, line: tuple[Node, ...]) -> Style:
        """What the elements around a drawing pass on: variables alone."""
        style: Style = {}
        for place in range(1, len(line) + 1):
            for rule in self.rules:
                if rule.fits(line[:place]):
                    style |= {name: value for name, value in rule.style.items() if name.startswith("--")}
        return style

    def resolved(self, style: Style, name: str, otherwise: str) -> str:
        """The value of a property, with its variables put in."""
        value = style.get(name, otherwise)
        for _ in range(4):
            value = re.sub(r"var\((--[\w-]+)\)", lambda match: style.get(match[1], self.light.get(match[1], self.ink)), value)
        return value


def framed(node: Node, view: View) -> View:
    """The view of what lies within a nested frame."""
    own = node.attributes
    left, top = view.x(own.get("x", "0")), view.y(own.get("y", "0"))
    wide, tall = length(own.get("width", "100%"), view.width), length(own.get("height", "100%"), view.height)
    if "viewbox" not in own:
        return replace(view, left=left, top=top, width=wide, height=tall)
    x, y, width, height = map(float, own["viewbox"].replace(",", " ").split())
    if "height" not in own:
        tall = wide * height / width
    across, down = view.across * wide / width, view.down * tall / height
    if own.get("preserveaspectratio") != "none":
        scale = min(across, down)
        left, top = left + (view.across * wide - scale * width) / 2, top + (view.down * tall - scale * height) / 2
        across = down = scale
    clip = (left, top, across * width, down * height) if own.get("overflow") == "hidden" else view.clip
    return View(left - across * x, top - down * y, across, down, width, height, clip)


def outline_of(node: Node, view: View) -> tuple[Step, ...]:
    """The outline of a shape on the page; nothing for other elements."""
    own = {"x": "0", "y": "0", "cx": "0", "cy": "0", "x1": "0", "x2": "0", "y1": "0", "y2": "0", "r": "0", **node.attributes}
    if node.tag == "line":
        return ("M", (view.x(own["x1"]), view.y(own["y1"]))), ("L", (view.x(own["x2"]), view.y(own["y2"])))
    if node.tag == "rect":
        left, top = view.x(own["x"]), view.y(own["y"])
        right, below = left + view.across * length(own["width"], view.width), top + view.down * length(own["height"], view.height)
        return ("M", (left, top)), ("L", (right, top)), ("L", (right, below)), ("L", (left, below)), ("Z", ())
    if node.tag == "circle":
        r, x, y = float(own["r"]), length(own["cx"], view.width), length(own["cy"], view.height)
        return placed(commands(f"M{x - r} {y}a{r} {r} 0 1 0 {2 * r} 0a{r} {r} 0 1 0 {-2 * r} 0Z"), view)
    return placed(commands(own["d"]), view) if node.tag == "path" else ()


def placed(steps: Sequence[Step], view: View) -> tuple[Step, ...]:
    """Steps in user units as steps on the page."""
    ends = [(view.left, view.across), (view.top, view.down)]
    return tuple(
        (name, tuple(ends[place % 2][0] + ends[place % 2][1] * number for place, number in enumerate(numbers))) for name, numbers in steps
    )


TOKENS = re.compile(r"[MLHVACZ]|-?(?:\d+\.?\d*|\.\d+)(?:e-?\d+)?", re.IGNORECASE)
TAKES = {"M": 2, "L": 2, "H": 1, "V": 1, "A": 7, "C": 6, "Z": 0}


def commands(path: str) -> list[Step]:
    """The path of an SVG element as absolute moves, lines and curves; arcs are halves of circles.

    >>> commands("M1 2h3V5l1 1Z")
    [('M', (1.0, 2.0)), ('L', (4.0, 2.0)), ('L', (4.0, 5.0)), ('L', (5.0, 6.0)), ('Z', ())]
    """
    found: list[Step] = []
    tokens, x, y, start, name = TOKENS.findall(path), 0.0, 0.0, (0.0, 0.0), "M"
    while tokens:
        if tokens[0].isalpha():
            name = tokens.pop(0)
        kind, from_here = name.upper(), name.islower()
        count = TAKES[kind]
        numbers, tokens = [float(token) for token in tokens[:count]], tokens[count:]
        dx, dy = (x, y) if from_here else (0.0, 0.0)
        if kind == "Z":
            found.append(("Z", ()))
            x, y = start
        elif kind == "A":
            end = numbers[5] + dx, numbers[6] + dy
            found += half_circle((x, y), end, clockwise=bool(numbers[4]))
            x, y = end
        elif kind == "C":
            moved = tuple(number + (dx, dy)[place % 2] for place, number in enumerate(numbers))
            found.append(("C", moved))
            x, y = moved[4:]
        else:
            x = numbers[0] + dx if kind != "V" else x
            y = numbers[-1] + dy if kind != "H" else y
            found.append(("M" if kind == "M" else "L", (x, y)))
            if kind == "M":
                start, name = (x, y), "l" if from_here else "L"
    return found


def half_circle(start: tuple[float, float], end: tuple[float, float], *, clockwise: bool) -> Iterator[Step]:
    """Half of a circle over two points, as two curves."""
    (x, y), (u, v) = ((start[0] + end[0]) / 2, (start[1] + end[1]) / 2), ((start[0] - end[0]) / 2, (start[1] - end[1]) / 2)
    turn = 1.0 if clockwise else -1.0
    for _ in range(2):
        w, z = -turn * v, turn * u
        ends = (u + KAPPA * w, v + KAPPA * z, w + KAPPA * u, z + KAPPA * v, w, z)
        yield "C", tuple(number + (x, y)[place % 2] for place, number in enumerate(ends))
        u, v = w, z


def tagged(tag: str) -> Callable[[Node], bool]:
    """Whether a node has this tag."""
    return lambda node: node.tag == tag


def wrapped(text: str, width: float, size: float, lines: int | None = None) -> list[str]:
    """A text in lines that fit a width, as far as its letters have the mean width; if `lines` are too few, it ends in "…"."""
    letters = max(8, math.floor(width / (LETTER * size)))
    return textwrap.wrap(text, letters, max_lines=lines, placeholder="…") if text.strip() else []


def flat_figure(title: str, *parts: str) -> Flat:
    """A figure of the page as a flat drawing, under its title."""
    layout = Layout()
    if title:
        layout.write(title, size=15.0, bold=True)
    for part in parts:
        reader = Reader()
        reader.feed(part)
        layout.add(reader.root)
    layout.flat.height = math.ceil(layout.y + 8)
    return layout.flat
