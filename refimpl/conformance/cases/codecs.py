"""Encoded gradients: three steps of each codec. What is sent, what is kept back, and what is the mean?

Gradients are few bits, of another size for each unit. No choice of an element or a level is a close one. So most
answers are exact, whatever the order of the additions.
"""

import numpy as np

from refimpl.conformance.case import Case, CaseVariable, CodecTask
from refimpl.conformance.cases.numbers import integers, signs
from refimpl.plain.adding.rows import Rows

SIZE, STEPS, UNITS = 21, 3, 2
"""Elements, steps, and units of a rank."""
SPARSE, LEVELS = ("topk", "dgc", "threshold", "adacomp"), ("onebit", "qsgd", "terngrad")
WITHOUT_FEEDBACK = ("bf16", "fp16", "integers", "qsgd")
EXACT = (*WITHOUT_FEEDBACK[:3], "topk", "threshold", "adacomp")


def cases(ranks: int):
    """Yield the cases for a number of ranks."""
    for codec, number, about in (
            ("bf16", 0, "half the bits of each element, rounded to nearest, ties to even"),
            ("fp16", 0, "half the bits of each element, rounded to nearest, ties to even"),
            ("integers", 16, "integers with one power of two as scale, on which all ranks agree"),
            ("topk", 4, "the largest elements, with feedback"),
            ("dgc", 4, "the largest elements, with momentum correction and clipping of each unit"),
            ("threshold", 1.25 + 2.0**-12, "a fixed step of each element beyond it"),
            ("adacomp", 8, "what has lately grown in each bin"),
            ("onebit", 0, "signs, and the mean of each sign"),
            ("qsgd", 5, "levels of the norm, rounded at random"),
            ("terngrad", 2.5, "one of three levels, at random"),
            ("powersgd", 2, "two thin matrices")):
        yield codec_case(f"codec/{codec}", about, ranks, codec, number)
    yield codec_case("codec/overflow", "a gradient of the last rank overflows in step 1: all ranks leave the step out",
                     ranks, "topk", 4, overflow=True)


def codec_case(name, about, ranks, codec, number, overflow=False) -> Case:
    """Return a case. number: the codec's."""
    draw = rounded if codec in ("bf16", "fp16") else few_bits
    steps = [[{f"{what} {u}": one(f"{name}{step}.{u}", u) for u in units_of(rank)
               for what, one in (("gradient", draw), ("drawn", sixteenths))} for rank in range(ranks)]
             for step in range(STEPS)]
    if overflow:
        steps[1][-1][f"gradient {UNITS * ranks - 1}"][5] = np.inf
    told = [*(["sent"] if codec != "powersgd" and not overflow else []), *(["scales"] if codec in LEVELS else []),
            *(["residual"] if codec not in WITHOUT_FEEDBACK else [])]
    of_units = {f"unit {u} {what}": rank for rank in range(ranks) for u in units_of(rank) for what in told}
    rows = [n for n in of_units if n.endswith("sent") and codec in SPARSE]
    variables = [CaseVariable(n, (SIZE, 1)[:1 + (n in rows)], n in rows) for n in (*of_units, "mean", "skipped")]
    return Case(name, "codec", about, ranks, tuple(variables), tuple(map(tuple, steps)), codec in EXACT,
                {"codec": codec, "number": number, "holders": {n: [rank] for n, rank in of_units.items()}}, (codec,))


def units_of(rank: int) -> range:
    """Return the units of a rank. Local."""
    return range(UNITS * rank, UNITS * (rank + 1))


def few_bits(key, unit):
    """Return whole numbers of both signs and unlike sizes, over 2^16, times 1, 2 or 4 in turn: float32."""
    order = np.argsort(integers(f"{key}order", (SIZE,), 0, 2**31), kind="stable")
    sizes = 3000 * order + integers(key, (SIZE,), 1000, 3000)
    return (sizes * signs(key, (SIZE,)) * 2.0**(unit % 3 - 16)).astype("float32")


def rounded(key, unit):
    """Return numbers that 16 bits round to one of -7 to 7; of unit 0 some halfway between two: float32."""
    numbers = integers(key, (SIZE,), -7, 8) * (1 + 2.0**-13)
    numbers[:4] = [1 + n * 2.0**-bits for bits in (8, 11) for n in (1, 3)] if unit == 0 else 0
    return numbers.astype("float32")


def sixteenths(key, unit):
    """Return random numbers, odd multiples of 1/32 in [0, 1)."""
    return (integers(f"{key}drawn", (SIZE,), 0, 16) + 0.5) / 16


def largest_of(case: Case) -> float:
    """Return the largest size of a finite gradient. Local."""
    found = [np.abs(part) for step in case.steps for parts in step for name, part in parts.items() if name[0] == "g"]
    return max(sizes[np.isfinite(sizes)].max() for sizes in found)


def task_of(case: Case, rank: int, given) -> CodecTask:
    """Return what a rank gets. given: its inputs of each step, arrays of its own. Local."""
    steps = [tuple({u: parts[f"{what} {u}"] for u in units_of(rank)} for what in ("gradient", "drawn"))
             for parts in given]
    q = few_bits("q", 0)[:6].reshape(3, 2) if case.settings["codec"] == "powersgd" else None
    return CodecTask(case.settings["codec"], case.settings["number"], UNITS * case.ranks, SIZE, steps, q=q)


def named(answers) -> list[dict]:
    """Return the answers of ``refimpl.plain.encoding.encoded_steps`` by the names of a case. Local."""
    result = []
    for messages, residuals, mean, skipped in answers:
        parts = {"mean": mean, "skipped": np.array(skipped, np.int64)}
        for unit, part in residuals.items():
            first, *scales = messages.get(unit, (part[:0],))
            parts |= {f"unit {unit} residual": part, f"unit {unit} sent": first}
            if scales and first.dtype == np.int32:
                parts[f"unit {unit} sent"] = Rows(first, scales[0][:, None])
            elif scales:
                parts[f"unit {unit} scales"] = scales[0]
        result.append(parts)
    return result
