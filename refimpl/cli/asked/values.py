"""Types of options' values, for argparse. Each refuses a wrong text with a message that quotes it."""

import argparse
import math
from pathlib import Path


def whole(least: int = 1, also: dict | None = None):
    """Return the type of whole numbers from ``least`` on. also: word -> its value, such as {"none": None}."""
    return _number(int, "a whole number", least, also)


def real(least: float = 0.0, above: bool = False, also: dict | None = None):
    """Return the type of finite numbers from ``least`` on; above: greater than ``least``. also: as for ``whole``."""
    return _number(float, "a number", least, also, above)


def _number(kind, what, least, also, above=False):
    bounds = f"above {least:g}" if above else f"of at least {least:g}"
    words = "".join(f", or {word}" for word in also or ())

    def convert(text: str):
        if also and text in also:
            return also[text]
        try:
            number = kind(text)
        except ValueError:
            number = math.nan
        if not (least < number < math.inf if above else least <= number < math.inf):
            raise argparse.ArgumentTypeError(f"{text!r} is not {what} {bounds}{words}")
        return number

    return convert


seconds = real(above=True)
"""The type of seconds: finite, above 0."""


def steps_or_seconds(text: str) -> int | str:
    """Return a whole number of steps, or the text of seconds: "30s", "2.5s". Raises ArgumentTypeError."""
    if text.endswith("s"):
        return f"{seconds(text.removesuffix('s')):g}s"
    return whole()(text)


def nonempty(text: str) -> str:
    """Return a text, such as a file's name. Raises ArgumentTypeError if it is empty."""
    if not text or "\0" in text:
        raise argparse.ArgumentTypeError("the name is empty: give one, or leave the option out")
    return text


def listed(text: str) -> list[str]:
    """Return the parts of "200mbit,100mbit", one for each machine. Raises ArgumentTypeError if one is empty."""
    return [nonempty(part.strip()) for part in text.split(",")]


def file(text: str) -> str:
    """Return the name of a file to be written. Raises ArgumentTypeError if it is empty or a directory."""
    if Path(nonempty(text)).is_dir():
        raise argparse.ArgumentTypeError(f"{text} is a directory: name a file in it")
    return text


def slowed(text: str) -> tuple[int, float]:
    """Return (rank, factor) of "2=3x": rank 2 takes 3 times as long to compute. Raises ArgumentTypeError."""
    rank, _, factor = text.removesuffix("x").partition("=")
    try:
        return whole(0)(rank), real(1.0)(factor)
    except argparse.ArgumentTypeError as problem:
        raise argparse.ArgumentTypeError(f"{text!r} should read RANK=FACTORx, the factor at least 1: with 2=3x rank 2 "
                                         "takes 3 times as long to compute") from problem
