"""Bytes of the paper's cases, counted on ranks of a job of its own: for curves over the number of ranks."""

import json
from dataclasses import asdict
from fractions import Fraction

from refimpl.experiments.ways import Case
from refimpl.notebook.ranks import run_on_ranks
from refimpl.plan.formulas import Bytes

_ON_RANKS = """
from fractions import Fraction
from refimpl.experiments.ways import Case, count_bytes
give(counted=[count_bytes(Case(**{**case, "alpha": Fraction(case["alpha"])}), comm) for case in cases])
"""


def count_on_ranks(cases: list[Case], ranks: int) -> list[list[Bytes]]:
    """Return for each case what each of ``ranks`` ranks sent and received in one step, by rank. Local.

    All cases in one job: see ``count_bytes``. Raises RanksFailed.
    """
    values = [{**asdict(case), "alpha": str(Fraction(case.alpha))} for case in cases]
    done = run_on_ranks(ranks, _ON_RANKS, values={"cases": json.loads(json.dumps(values))})
    return [[Bytes(*each) for each in by_rank] for by_rank in done.given["counted"]]
