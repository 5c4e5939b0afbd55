"""Check numbers in a lesson's prose against the kernel, after all cells were executed.

A cell's metadata "held" maps phrases of the cell to expressions:

    {"held": {"0.012": "crossing", "twice as fast": "times['ring'] > 1.9 * times['tree']"}}

A number must be the expression's value, rounded to the written places. The expression of any other phrase must be true.
"""

import re


def complaints(held: dict[str, str], names: dict) -> list[str]:
    """Return one line for each phrase with a wrong expression. names: the kernel's variables. Local."""
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
