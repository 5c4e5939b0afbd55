"""α as it was measured: the part of each sparse variable's rows that a worker touched in a step."""

import json

import numpy as np

from refimpl.plan.sample import union


def alpha_of(variables, needs) -> dict[str, float]:
    """Return name -> α of this rank in a step. needs: microbatch -> the rows it needs, None without examples. Local."""
    asked = [wanted for wanted in needs.values() if wanted is not None]
    sparse = [v for v in variables if v.sparse]
    return {v.name: len(union([wanted[v.name] for wanted in asked])) / max(1, v.shape[0]) for v in sparse}


def mean_alpha(comm, alpha: dict[str, float]) -> dict[str, float]:
    """Return name -> mean over all ranks, on every rank. For reports: not on the data path, not counted. Collective."""
    if not alpha:
        return {}
    everyone = [json.loads(text) for text in comm.share_text(json.dumps(alpha))]
    return {name: float(np.mean([theirs[name] for theirs in everyone])) for name in alpha}
