"""Formulas as MathML, which browsers show without any script."""

import re
from html import escape

from latex2mathml.converter import convert

_FUNCTIONS = "log|exp|max|min|sin|cos|lim"
_MENDED = (
    # a minus after a comma, bracket or relation is a sign, not a difference
    (r"(<mo[^>]*>(?:,|=|&#x0002C;|&#x0003D;|&#x00028;|&#x0005B;)</mo>|<mspace[^>]*/>)<mo>&#x02212;</mo>",
     r'\1<mo form="prefix" lspace="0" rspace="0">&#x02212;</mo>'),
    # a function stands apart from its argument, unless that is in brackets
    (rf"((?:<msub>)?<m([io])>(?:{_FUNCTIONS})</m\2>(?:<m[rin].*?</m[rin]\w*></msub>)?)(?!<mo[^>]*>&#x00028;|</)",
     r'\1<mspace width="0.17em"/>'),
    # a prime is a sign of its own size
    (r"<mi>&#x02032;</mi>", "<mo>&#x02032;</mo>"),
    # neither a slash nor a colon holds its neighbours off
    (r"<m([io])>(/|:|&#x0002F;|&#x0003A;)</m\1>", r'<mo lspace="0" rspace="0">\2</mo>'),
)


def mathml(content: str, options: dict) -> str:
    """Return a formula in LaTeX as MathML with its source as the label; options: of the dollar signs' plugin."""
    formula = convert(content, display="block" if options["display_mode"] else "inline")
    for wrong, right in _MENDED:
        formula = re.sub(wrong, right, formula)
    return formula.replace("<math ", f'<math alttext="{escape(content.strip())}" ', 1)
