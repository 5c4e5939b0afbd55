"""A picture with a text alternative: an SVG, a line of text that describes it, and its numbers.

All pictures have one style: Okabe & Ito's colours, with dashes and marks for print and colour-blind readers. The same
figure gives the same SVG, byte for byte.
"""

import contextlib
import io
import re
from dataclasses import dataclass
from html import escape
from pathlib import Path

BLUE, ORANGE, BLACK, GREEN = "#0072b2", "#e69f00", "#000000", "#009e73"
VERMILION, SKY, PURPLE, GREY = "#d55e00", "#56b4e9", "#cc79a7", "#767676"
COLOURS = (BLUE, ORANGE, BLACK, GREEN, VERMILION, PURPLE, SKY, GREY)
"""Okabe & Ito's colours in the order in which lines take them; with DASHES and MARKS at the same index."""
DASHES = ("-", "--", ":", "-.", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 2)), (0, (8, 2)))
MARKS = ("o", "s", "^", "D", "v", "P", "X", "*")
SIZE = 7.0, 4.2
"""Inches: a picture's text is as large as the text around it on a page or a screen of 700 pixels."""
STYLE = {
    "figure.figsize": SIZE, "figure.constrained_layout.use": True, "font.family": ["DejaVu Sans"], "font.size": 10,
    "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "grid.alpha": 0.25,
    "axes.titlelocation": "left", "axes.titlesize": 11, "legend.frameon": False, "lines.linewidth": 1.8,
    "svg.fonttype": "none", "svg.hashsalt": "refimpl", "savefig.facecolor": "white",
}


@dataclass(frozen=True)
class Picture:
    """svg: the drawing.  alt: its description in one line.  numbers: the drawn values, as a table of text."""

    svg: str
    alt: str
    numbers: str = ""

    @property
    def text(self) -> str:
        """The picture in words: ``alt`` and, below it, ``numbers``."""
        return f"{self.alt}\n{self.numbers}".strip()

    def _repr_mimebundle_(self, include=None, exclude=None):
        return {"image/svg+xml": self.svg, "text/plain": self.text}

    def __repr__(self) -> str:
        return self.text

    def save(self, path) -> Path:
        """Write the SVG to ``path`` and return it. Local."""
        path = Path(path)
        path.write_text(self.svg, encoding="utf-8")
        return path


def picture_of(figure, alt: str, numbers: str = "") -> Picture:
    """Return the Picture of a matplotlib figure. Local.

    alt: one line for readers who cannot see it.  numbers: the plotted values (see ``table``).
    Raises ValueError without ``alt``.
    """
    if not alt.strip() or "\n" in alt:
        raise ValueError("a picture needs a text alternative of one line: what does it show?")
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    written = io.StringIO()
    with matplotlib.rc_context(STYLE):
        FigureCanvasSVG(figure).print_svg(written, metadata={"Date": None, "Creator": None})
    return Picture(described(written.getvalue(), alt), alt, numbers)


@contextlib.contextmanager
def figure_in_style(width: float = SIZE[0], height: float = SIZE[1], **subplots):
    """Yield (figure, axes) in the common style, for ``picture_of``. subplots: of ``Figure.subplots``. Local.

        with figure_in_style() as (figure, axes):
            axes.plot(...)
            return picture_of(figure, "...")
    """
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(width, height))
        yield figure, figure.subplots(**subplots)


def bare(axes):
    """Remove grid, frame and ticks from matplotlib axes; keep the labels. Local."""
    axes.grid(False)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)


def plain_axis(axes, axis: str):
    """Remove grid and ticks from the axis of bars ("x" or "y"); put other grid lines behind the bars. Local."""
    axes.set_axisbelow(True)
    axes.tick_params(axis=axis, length=0)
    axes.grid(axis=axis, visible=False)


def line_style(index: int) -> dict:
    """Return the colour and dash of the index-th line of a plot, as keywords of ``axes.plot``. Local."""
    return {"color": COLOURS[index % len(COLOURS)], "linestyle": DASHES[index % len(DASHES)]}


def mark_style(index: int) -> dict:
    """Return the colour and mark of the index-th set of points of a plot, as keywords of ``axes.plot``. Local."""
    return {"color": COLOURS[index % len(COLOURS)], "linestyle": "", "marker": MARKS[index % len(MARKS)]}


def table(heads, rows) -> str:
    """Return rows (of numbers or text) under their heads as aligned text: a picture's ``numbers``. Local."""
    cells = [[str(head) for head in heads], *([_cell(value) for value in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells)]
    return "\n".join("  ".join(text.rjust(width) for text, width in zip(row, widths)).rstrip() for row in cells)


def _cell(value) -> str:
    return f"{value:.4g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)


def described(svg: str, alt: str) -> str:
    """Return the SVG with a title for screen readers, and without the prologue, which HTML must not contain. Local."""
    svg = svg[svg.index("<svg"):]
    opening = re.match(r"<svg[^>]*>", svg).group(0)
    inside = svg[len(opening):]
    return "\n".join(line.rstrip() for line in
                     f"{opening[:-1]} role=\"img\">\n<title>{escape(alt)}</title>{inside}".splitlines()) + "\n"
