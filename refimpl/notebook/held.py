"""Numbers in prose that the lesson's kernel must give, after all cells were executed.

A cell's metadata "held" maps what the cell says to an expression:

    {"held": {"0.012": "crossing", "twice as fast": "times['ring'] > 1.9 * times['tree']"}}

A number must be the expression's value, rounded to as many places as are written; any other phrase must be true.
"""

import re


def complaints(held: dict[str, str], names: dict) -> list[str]:
    """Return one line for each phrase that its expression does not give. names: the kernel's variables. Local."""
    found = []
    for phrase, expression in held.items():
        number = re.fullmatch(r"\d[\d,]*(?:\.\d+)?", phrase)
        try:
            value = eval(expression, names)
            given = f"{value:.{len(phrase.partition('.')[2])}f}" if number else bool(value)
            if given != (phrase.replace(",", "") if number else True):
                found.append(f"it says {phrase!r}, but {expression} gives {given}")
        except Exception as problem:
            found.append(f"it says {phrase!r}, but {expression} raises {type(problem).__name__}: {problem}")
    return found
