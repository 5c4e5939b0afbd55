"""Bytes as metrics.jsonl has them, added up by rank."""


def bytes_by_rank(metrics: list[dict], *, phase: str | None = None, variable: str | None = None,
                  kinds=("dense", "rows", "indices")) -> list[float]:
    """Return what each rank sent and received in a step, by rank: the mean over the records. Local.

    metrics: of ``read_metrics``.  phase, variable: only that one's; None: all.  kinds: of ``ledger.KINDS``.
    Raises ValueError without records.
    """
    if not metrics:
        raise ValueError("there are no metrics: the training did no step")
    total: list[float] = []
    for record in metrics:
        for direction in ("bytes_sent", "bytes_received"):
            for of_phase, by_variable in record[direction].items():
                for of_variable, by_kind in by_variable.items():
                    if phase in (None, of_phase) and variable in (None, of_variable):
                        for counts in (by_kind[kind] for kind in set(kinds) & set(by_kind)):
                            total = [have + more for have, more in zip(total or [0] * len(counts), counts)]
    return [count / len(metrics) for count in total]
