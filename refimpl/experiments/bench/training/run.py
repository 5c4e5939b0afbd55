"""How fast is a whole training beside PyTorch's DistributedDataParallel over gloo, on one machine and on a cluster?

All have the same model, words and batch, in the same processes, step by step in turns:

refimpl hybrid:     dense gradients by allreduce, rows through the sharded server; partitions are interleaved, because
                    contiguous ones would put the frequent words on one machine, whose card would then be the limit
refimpl allreduce:  everything goes to all ranks, as with the peer: so bytes do not explain this ratio
torch DDP (gloo):   nn.Embedding(sparse=True) for words and softmax; dense gradients are sent in buckets during the
                    backward pass, sparse ones by gloo's sparse allreduce: every rank gets and merges all ranks' rows

A step's seconds have three parts: the model's own computation (measured while all ranks compute, because 8 machines
share this one's cores), the bytes on the busiest card at the line's rate, and the rest: overhead (merging, updates,
copies, latency) less what overlaps.
"""

from models.registry import workloads_for
from refimpl.experiments.bench.training import CLUSTER, HYBRID, MACHINE, PEER
from refimpl.experiments.job import measure


def run(seconds: float = 24.0, rounds: int = 5, cluster: bool = False, workload=None) -> dict:
    """Time a training step; return {"rows", "ratios", "parts", "touched"}. Local; launches the ranks.

    workload: one microbatch for each rank; None: that of the first model with a workload "training".
    rows: a Row each, with words_per_second, and on the cluster line_seconds and card_bytes (busiest machine's mean of a
    step: sent, received).  ratios: the peer's seconds / those of hybrid.  parts: see ``parts``.
    touched: what a rank's step touches of the sparse variables, beside the dense elements.
    """
    work, workload = "training" + "-cluster" * cluster, workload or workloads_for("training")[0]
    wanted = {"work": work, "workload": workload.to_json(), "seconds": seconds, "rounds": rounds}
    found = measure("refimpl.experiments.bench.training.ranks:race_model", wanted, **(CLUSTER if cluster else MACHINE))
    seconds_of = {row["name"]: row["seconds"] for row in found["rows"]}
    ratios = {work: seconds_of[PEER] / seconds_of[HYBRID]} if PEER in seconds_of else {}
    return {**found, "ratios": ratios, "parts": parts(found["rows"])}


def parts(rows: list[dict]) -> dict:
    """Return how much of the peer's extra seconds is computation, bytes and overhead; {} without cards. Local.

    bytes_ratio: the peer's bytes on the busiest card / ours: the ratio if only bytes took time.
    seconds: name -> (computation, line, rest) of a step.  share: the fraction of the difference for each of the three.
    """
    of = {row["name"]: row for row in rows}
    if PEER not in of or "line_seconds" not in of[HYBRID]:
        return {}
    cut = {name: (row["compute_seconds"], row["line_seconds"],
                  row["seconds"] - row["compute_seconds"] - row["line_seconds"]) for name, row in of.items()}
    extra = of[PEER]["seconds"] - of[HYBRID]["seconds"]
    share = {part: (theirs - ours) / extra if extra else 0.0
             for part, theirs, ours in zip(("computation", "bytes", "overhead"), cut[PEER], cut[HYBRID])}
    return {"bytes_ratio": of[PEER]["line_seconds"] / of[HYBRID]["line_seconds"], "seconds": cut, "share": share}


def describe(result: dict) -> list[str]:
    """Return lines of text: what a step touches, speeds and bytes, and the parts of the ratio. Local."""
    touched, found = result["touched"], result["parts"]
    alphas = ", ".join(f"{name} {alpha:.2%}" for name, alpha in touched["alpha"].items())
    lines = [f"rows that a rank's step touches: {alphas}; {touched['rows_to_dense']:.2f} times as many elements as the "
             f"{touched['dense_elements']:,} dense ones"]
    lines += [row_line(row, row["words_per_second"], "words", found) for row in result["rows"]]
    if found:
        share = ", ".join(f"{part} {of_it:.0%}" for part, of_it in found["share"].items())
        lines.append(f"bytes alone would give {found['bytes_ratio']:.2f} x; the seconds that the peer's step takes "
                     f"more are: {share}")
    return lines


def row_line(row: dict, speed: float, unit: str, found: dict) -> str:
    """Return a line for one row: name, speed, bytes on the busiest card, parts of a step. Local.

    found: the result of ``parts``.
    """
    line = f"{row['name']:20} {speed:9,.0f} {unit}/s"
    if card := row.get("card_bytes"):
        line += f"  busiest card {card[0] / 1e6:6.2f} MB out, {card[1] / 1e6:6.2f} MB in a step"
    if found:
        computation, on_line, rest = (1e3 * seconds for seconds in found["seconds"][row["name"]])
        line += f"  = computation {computation:4.0f} + line {on_line:4.0f} + rest {rest:4.0f} ms"
    return line
