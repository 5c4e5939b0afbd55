"""A diagnosis."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Diagnosis:
    """code: the bug's short name.  words: what is wrong.  evidence: what shows it.  vague: it says only where."""

    code: str
    words: str
    evidence: str = ""
    vague: bool = False
