"""Sums by rank of the bytes in metrics.jsonl."""


def bytes_by_rank(metrics: list[dict], *, phase: str | None = None, variable: str | None = None,
                  kinds=("dense", "rows", "indices")) -> list[float]:
    """Return the bytes that each rank sent and received in a step: the mean over the lines. Local.

    metrics: of ``read_metrics``.  phase, variable: count only this one; None: all.  kinds: of ``ledger.KINDS``.
    Raises ValueError without lines.
    """
    if not metrics:
        raise ValueError("there are no metrics: the training did no step")
    found = [counts for record in metrics for direction in ("bytes_sent", "bytes_received")
             for of_phase, by_variable in record[direction].items() if phase in (None, of_phase)
             for of_variable, by_kind in by_variable.items() if variable in (None, of_variable)
             for kind, counts in by_kind.items() if kind in kinds]
    return [sum(of_rank) / len(metrics) for of_rank in zip(*found)]
