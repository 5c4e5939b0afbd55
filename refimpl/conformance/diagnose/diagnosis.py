"""A diagnosis."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Diagnosis:
    """code: the bug's short name.  words: what is wrong.  evidence: what shows it.  vague: it says only where.

    shown_by: (case, step, variable, rank or None) of the smallest case that shows what is vague; () where none does.
    """

    code: str
    words: str
    evidence: str = ""
    vague: bool = False
    shown_by: tuple = ()
