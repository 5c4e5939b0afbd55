"""Expected failures: a JSON file in the implementer's repository.

    {"format": 1, "expected": {"dense/denormals": "the GPU flushes them", "rows/ids-*": "ids are int32"}}

A name may hold * and ?; "dense/inf@4" is that case on 4 ranks alone.
"""

from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Literal

from msgspec import Struct

from refimpl.json_file import read_json

FORMAT = 1


class _File(Struct, forbid_unknown_fields=True):
    format: Literal[FORMAT]
    expected: dict[str, str]


@dataclass(frozen=True)
class ExpectedFailures:
    """pattern -> why."""

    reasons: dict[str, str] = field(default_factory=dict)

    def reason(self, case: str, ranks: int) -> str:
        """Return why a case is expected to fail, "" if it is not."""
        return next((why for pattern, why in self.reasons.items()
                     if fnmatchcase(case, pattern) or fnmatchcase(f"{case}@{ranks}", pattern)), "")

    def fixed(self, verdicts) -> list[str]:
        """Return the patterns of which every case that ran passed: they should leave the file."""
        result = []
        for pattern in self.reasons:
            hit = [v for v in verdicts if v.status != "skipped"
                   and (fnmatchcase(v.case, pattern) or fnmatchcase(f"{v.case}@{v.ranks}", pattern))]
            if hit and all(v.status == "passed" for v in hit):
                result.append(pattern)
        return result


def read_expected(path) -> ExpectedFailures:
    """Read a file of expected failures. Raises ValueError saying what is wrong with it."""
    return ExpectedFailures(read_json(path, _File, what="a file of expected failures",
                                      remedy=f'give {{"format": {FORMAT}, "expected": {{"case": "why"}}}}').expected)
