"""Properties of all ranks' answers together: fused messages, samplers, random streams, refusals."""

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

from refimpl.conformance.words import some


@dataclass
class VariableResult:
    """One variable of a case. step, rank, element: of the first wrong number; None if there is none.

    worst_ulp: largest distance, in ULP of the expected number.  worst_ratio: largest distance over the tolerance; 0 or
    inf if the tolerance is zero.  comparison: bits, exact, bound or property.  code: of a diagnosis, or "".
    """

    variable: str
    ok: bool
    comparison: str
    worst_ulp: float = 0.0
    worst_ratio: float = 0.0
    step: int | None = None
    rank: int | None = None
    element: tuple | None = None
    found: Any = None
    wanted: Any = None
    words: str = ""
    code: str = ""


def complaint(variable, words, step=None, rank=None, code="") -> VariableResult:
    """Return a finding that says what is wrong with the answers of all ranks. Local."""
    return VariableResult(variable, False, "property", np.inf, np.inf, step, rank, words=words, code=code)


def check_fusion(case, semantics, answers) -> list[VariableResult]:
    """Messages hold all bytes, none is larger than the manifest says, and no two neighbours fit into one."""
    sizes = [case.steps[0][0][v.name].nbytes for v in case.variables]
    limit, result = semantics.fusion_bytes, []
    for rank, answer in enumerate(answers):
        messages = answer.steps[0]["messages"].tolist()
        largest = max(messages, default=0)
        if sum(messages) != sum(sizes):
            words, code = f": {sum(messages)} in all, the gradients are {sum(sizes)}", ""
        elif largest > max(limit, max(sizes)):
            words, code = f", the limit is {limit}", ""
            if len(messages) == 1:
                words, code = f"{words}: all in one message, as if there were no limit", "fusion-unlimited"
            elif largest <= limit * np.dtype(case.variables[0].dtype).itemsize:
                words, code = f"{words}; the limit seems to count elements", "fusion-in-elements"
        elif any(a + b <= limit for a, b in zip(messages, messages[1:])):
            words, code = f": neighbours would fit into one of {limit}: not fused", "fusion-off"
        else:
            continue
        told = f"rank {rank} sent messages of {', '.join(map(str, messages))} bytes"
        result.append(complaint("messages", told + words, 0, rank, code))
    return result


def check_sampler(case, semantics, answers) -> list[VariableResult]:
    """Ranks see the examples as the manifest says: each once, padded with repeats, or without the tail."""
    count, result = case.settings["count"], []
    for epoch in (0, 1):
        shares = [a.steps[epoch]["examples"].tolist() for a in answers]
        seen = Counter(k for share in shares for k in share)
        strange = sorted(k for k in seen if not 0 <= k < count)
        twice, never = sorted(k for k in seen if seen[k] > 1), [k for k in range(count) if k not in seen]
        each = {"pads": -(-count // case.ranks), "drops": count // case.ranks}.get(semantics.sampler)
        if strange:
            words, code = f"examples {some(strange)} do not exist", ""
        elif twice and semantics.sampler != "pads":
            words = f"examples {some(twice)} are seen more than once: the sampler pads with repeats"
            code = "sampler-pads"
        elif never and semantics.sampler != "drops":
            words, code = f"examples {some(never)} are never seen: the sampler drops the tail", "sampler-drops"
        elif each is not None and {len(share) for share in shares} != {each}:
            words, code = f"ranks see {[len(s) for s in shares]} examples, the manifest says {each} each", ""
        else:
            continue
        result.append(complaint("examples", f"{words} (epoch {epoch} of {count})", epoch, code=code))
    return result


def check_random(case, semantics, answers) -> list[VariableResult]:
    """No two ranks draw the same; steps differ; a step asked again gives the same."""
    draws, result = [[step["draws"] for step in a.steps] for a in answers], []
    for rank, (first, second, again) in enumerate(draws):
        same = next((r for r in range(rank) if np.array_equal(draws[r][0], first)), None)
        for wrong, step, words, code in (
                (same is not None, 0, f"draws the same numbers as rank {same}", "same-random-numbers"),
                (np.array_equal(first, second), 1, "draws the same numbers in steps 0 and 1", ""),
                (not np.array_equal(first, again), 2, "draws other numbers when asked for step 0 again", "")):
            if wrong:
                result.append(complaint("draws", f"rank {rank} {words}", step, rank, code))
    return result


def check_owner(case, semantics, answers) -> list[VariableResult]:
    """A push that cannot be corrected is refused."""
    if not case.settings["refused"]:
        return []
    return [complaint("", "a push of rows that the worker never pulled is taken, not refused: they are corrected "
                      "against other values than its own", code="unpulled-rows")]


CHECKS = {"fusion": check_fusion, "sampler": check_sampler, "random": check_random,
          "owner": check_owner}
