"""Exercises: a check returns whether an answer is right, with a hint if it is wrong. A missing answer is not wrong.

A check is a function of the answer, made with ``exercise``, in a module of this package named after its notebook:

    @exercise
    def check_rounds(answer):
        return right("2 (N - 1).") if answer == 6 else wrong("count the second half too")

``number`` makes the check of a number, from the right one and the wrong ones with their hints. In the notebook the
answer is ``...`` until the reader replaces it.
"""

import functools
from dataclasses import dataclass


@dataclass(frozen=True)
class ExerciseVerdict:
    """The result of a check. right: True, False, or None if there is no answer yet."""

    right: bool | None
    why: str = ""

    def __repr__(self) -> str:
        said = {True: "right", False: "not yet", None: "not answered yet"}[self.right]
        return f"{said}: {self.why}" if self.why else said


def right(why: str = "") -> ExerciseVerdict:
    """Return the verdict on a right answer. why: what to remember. Local."""
    return ExerciseVerdict(True, why)


def wrong(hint: str) -> ExerciseVerdict:
    """Return the verdict on a wrong answer. hint: where to look, without the answer. Local."""
    return ExerciseVerdict(False, hint)


def exercise(check):
    """Make a check of answers from a function that returns an ExerciseVerdict. Local.

    A missing answer (``...``, or a function that returns ``...``) is not wrong. An answer for which the check raises an
    exception is wrong, and the verdict shows the exception.
    """

    @functools.wraps(check)
    def checked(*answers) -> ExerciseVerdict:
        if not answers or any(answer is ... or answer is None for answer in answers):
            return ExerciseVerdict(None)
        try:
            return check(*answers)
        except NotAnswered:
            return ExerciseVerdict(None)
        except Exception as problem:
            return wrong(f"that cannot be checked ({type(problem).__name__}: {problem})")

    return checked


def number(wanted, why: str, hints: dict, otherwise: str, apart: float = 0.0):
    """Return the check of an answer that is a number. hints: wrong number -> its hint; otherwise: of all others. Local.

    why: what to remember when the answer is ``wanted``.  apart: how far numbers that count as equal may be apart.
    """

    @exercise
    def check(answer):
        if abs(answer - wanted) <= apart:
            return right(why)
        return wrong(next((hint for number, hint in hints.items() if abs(answer - number) <= apart), otherwise))

    return check


class NotAnswered(Exception):
    """Raised in a check if the answer is a function that still returns ``...``."""


def answered(value):
    """Return the value that the reader's function returned; end the check if it is still ``...``. Local."""
    if value is ...:
        raise NotAnswered
    return value
