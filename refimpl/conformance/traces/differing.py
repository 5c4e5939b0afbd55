"""One stage of one step of a trace, beside its expected values."""

from dataclasses import dataclass, replace
from functools import cached_property

from refimpl.conformance.compare import Verdict, differences
from refimpl.conformance.traces.sources import Sources


@dataclass(frozen=True)
class Differing:
    """The verdict on a stage, and the step in which it first differs. wanted, inputs: see ``expect.expected``."""

    sources: Sources
    wanted: dict
    inputs: dict
    verdict: Verdict
    step: int | None

    def handed_in(self, step, *stages) -> dict:
        """Return (stage, step, microbatch, variable, part) -> (found, Expected), of all that was handed in."""
        return {place: (found, replace(want, canonical=None)) for place, want in self.wanted.items()
                if place[0] in stages and place[1] == step and (found := self.sources.handed_in(place)) is not None}

    @cached_property
    def parts(self) -> dict:
        """What was handed in of the stage and the step."""
        return self.handed_in(self.step, self.verdict.stage)

    def failing(self):
        """Yield (place, found, wanted, where it differs, ids) of what differs."""
        for place, (found, want) in self.parts.items():
            _, _, bad, ids = differences(found, want)
            if bad.any():
                yield place, found, want, bad, ids
