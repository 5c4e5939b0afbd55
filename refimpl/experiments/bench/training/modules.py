"""How fast does a module of PyTorch train here, beside DistributedDataParallel over gloo, on one machine and a cluster?

Both sides have the same module, initial values, batches, random numbers and optimizer, in the same processes, in turns:

refimpl hybrid:     ``refimpl.torch.TorchModel``, which records look-ups; dense gradients by allreduce, rows through the
                    sharded server
torch DDP (gloo):   sparse gradients of nn.Embedding(sparse=True), but dense ones for a table of 50 rows, which is
                    faster; gradients lie in buckets; each rank has its own buffers (``peers.torch_replica``)

Both do the same number of steps, and must compute the same: their losses are compared (``deviation``).
"""

from importlib.util import find_spec

from refimpl.experiments.bench.timing import grouped
from refimpl.experiments.bench.training import CLUSTER, HYBRID, MACHINE, PEER
from refimpl.experiments.bench.training.run import parts, row_line
from refimpl.experiments.job import measure

WORKS = {"lm": (2.5, 2.5), "recommender": (2.0, 2.0), "cnn": (0.98, 0.98)}
FOREIGN = {"torchfm": (1.0, 1.2), "deepctr": (1.0, 1.2), "tagger": (1.0, 1.2), "transformer": (1.0, 1.2),
           "gpt2": (0.98, 0.98)}
"""Work -> the ratios to reach, on one machine and on the cluster."""
PACKAGES = ("torchfm", "deepctr_torch", "transformers")
QUICK = {"seconds": 0.1, "rounds": 2}
"""A short run that only shows that it works: microbatches of a few examples, two ranks or machines."""

ALIKE_STEPS = 4
"""So many first losses must agree: those of the warm-up and the next one. All but the first depend on an exchange."""
ALIKE = 2.0 ** -12
"""The largest relative difference. float32 rounds by 2**-24 of a number. A sum has at most 2**16 products, whose
rounding errors partly cancel: a factor of 2**8. Layers and steps amplify both sides' errors: a factor of 2**4. A step
with another learning rate differs by more (a test checks this)."""


def run(seconds: float = 15.0, rounds: int = 7, cluster: bool = False, quick: bool = False,
        foreign: bool = False) -> dict:
    """Time the works; return {"rows", "ratios", "parts", "alpha", "losses", "deviation"}. Local; launches the ranks.

    seconds: for each work.  quick: small works, see QUICK.  foreign: the works of FOREIGN.
    rows: of ``paired``, with examples_per_second, compute_seconds, the best and the worst pair's ratio, and on
    the cluster line_seconds and card_bytes.  parts: work -> see ``parts``.  losses: work -> side -> loss of each step.
    Raises ValueError without PyTorch or a foreign module's package, or if the two sides do not compute the same.
    """
    try:
        import refimpl.torch  # noqa: F401
    except ModuleNotFoundError as problem:
        raise ValueError(f"bench torch: {problem}") from problem
    if foreign and (missing := [package for package in PACKAGES if find_spec(package) is None]):
        raise ValueError(f"bench torch --foreign needs {', '.join(missing)}: pip install -e '.[foreign]'")
    wanted = {"works": list(FOREIGN if foreign else WORKS), "where": "-quick" if quick else "-cluster" * cluster,
              "small": quick, **(QUICK if quick else {"seconds": seconds, "rounds": rounds})}
    setting = (CLUSTER if cluster else MACHINE) | ({"machines" if cluster else "ranks": 2} if quick else {})
    found = measure("refimpl.experiments.bench.training.ranks:race_modules", wanted, **setting)
    return found | {"ratios": {row["work"]: row["ratio"] for row in found["rows"] if row["peer"]},
                    "parts": {work: parts(rows) for work, rows in grouped(found["rows"], "work").items()},
                    "deviation": {work: deviation(work, losses) for work, losses in found["losses"].items()}}


def deviation(work: str, losses: dict) -> list[float]:
    """Return the relative difference of both sides' losses, step by step. Local.

    losses: side -> loss of each step.  Raises ValueError if one of the first ALIKE_STEPS differs by more than ALIKE.
    """
    differences = [abs(ours - theirs) / abs(ours) for ours, theirs in zip(losses[HYBRID], losses[PEER])]
    for step, difference in enumerate(differences[:ALIKE_STEPS], 1):
        if not difference <= ALIKE:
            raise ValueError(f"the times cannot be compared: in step {step} of {work} the losses of both sides are "
                             f"{losses[HYBRID][step - 1]:.6g} and {losses[PEER][step - 1]:.6g}. They differ by "
                             f"{difference:.1e} of their value, and rounding explains at most {ALIKE:.1e}. So the two "
                             "sides do not train the same")
    return differences


def describe(result: dict) -> list[str]:
    """Return lines of text: speed, bytes, the pairs' ratios, and the difference of the losses. Local."""
    lines = []
    for name, (work, rows) in zip(result["losses"], grouped(result["rows"], "work").items()):
        alphas = ", ".join(f"{table} {alpha:.2%}" for table, alpha in result["alpha"][name].items())
        lines.append(f"{work}: rows that a rank's step touches: {alphas or 'there are no tables'}")
        found = result["parts"][work]
        lines += [f"  {row_line(row, row['examples_per_second'], row['unit'], found)}" for row in rows]
        worst, best = next(row["ratios"] for row in rows if row["peer"])
        lines.append(f"  pair by pair {worst:.2f} to {best:.2f} x"
                     + (f"; bytes alone would give {found['bytes_ratio']:.2f} x" if found else ""))
        losses, differences = result["losses"][name], result["deviation"][name]
        lines.append(f"  loss after {len(differences)} steps: {losses[HYBRID][-1]:.6f} and {losses[PEER][-1]:.6f}; the "
                     f"first {ALIKE_STEPS} differ by at most {max(differences[:ALIKE_STEPS]):.1e} of them, all by "
                     f"{max(differences):.1e}")
    return lines
