"""One stage of one step as it was handed in, beside what is expected of it."""

from dataclasses import dataclass, replace

import numpy as np

from refimpl.conformance.case import numbers_of
from refimpl.conformance.compare import differences
from refimpl.conformance.rules.aggregate import Wanted
from refimpl.conformance.traces.sources import Sources


@dataclass(frozen=True)
class Differing:
    """parts: (stage, step, microbatch, variable, part) -> (found, Wanted), of all that was handed in."""

    sources: Sources
    step: int | None
    parts: dict

    @classmethod
    def of(cls, sources, wanted, stage, step) -> "Differing":
        """Pick a stage and a step."""
        parts = {place: (found, replace(want, canonical=None)) for place, want in wanted.items()
                 if place[:2] == (stage, step) and (found := sources.handed_in(place)) is not None}
        return cls(sources, step, parts)

    def failing(self):
        """Yield (place, found, wanted, where it differs, ids) of what differs."""
        for place, (found, want) in self.parts.items():
            _, _, bad, ids = differences(found, want)
            if bad.any():
                yield place, found, want, bad, ids


def fits(found, wanted: Wanted, value, relative: float = 0.0) -> bool:
    """Return whether numbers are a prediction within the expectation's tolerance. Local.

    value: array or Rows.  relative: of each predicted number that much is tolerated too.
    """
    tolerance = float(np.max(wanted.tolerance, initial=0.0)) + relative * np.abs(numbers_of(value))
    return not differences(found, Wanted(value, tolerance, wanted.dtype))[2].any()


def flat(part) -> np.ndarray:
    """Return the numbers of an array or Rows as one float64 vector. Local."""
    return np.ravel(numbers_of(part)).astype(np.float64)
