"""The chosen plan and the reasons, as text and as plain data."""

import textwrap
from collections import Counter
from dataclasses import asdict

from refimpl.plan.choose import Chosen
from refimpl.plan.codecs import encoded
from refimpl.plan.strategy import names_of
from refimpl.words import counted

OPERATIONS = (
    "before anything is sent, a rank adds up the gradients of its microbatches and merges rows with the same number. "
    "It asks for each row once. With local aggregation the ranks of a machine do this together",
    "the owner of a row computes the sum, its squares for the clipping norm, and the update. If allreduce or allgather "
    "brings a gradient to every rank, each rank computes the same, with the same bits",
    "after rows have arrived, the model itself does what makes data larger: it copies a row to each place in the "
    "batch, and computes dropout and logits",
)
"""Where the operations after aggregation run (docs/paper.md, Mechanisms: placement of operations)."""


def describe(chosen: Chosen, width: int | None = None) -> str:
    """Return the plan, its reasons and numbers as lines of text. width: the longest line; None: any. Local."""
    lines = [f"plan {chosen.plan.architecture}: {headline(chosen)}"]
    if chosen.plan.architecture == "auto":
        lines.append("  rule: begin with the architecture that is predicted to be fastest; give a variable another "
                     "strategy if this makes the step at least a twentieth shorter; repeat")
    for f in chosen.forecasts:
        if f.sparse:
            lines.append(f"  {f.variable} (sparse, α {f.alpha:.3g}, {f.nbytes / 1e6:.3g} MB): {f.strategy}; {f.reason}")
    for name in names_of(sparse=False):
        if dense := [f for f in chosen.forecasts if not f.sparse and f.strategy == name]:
            lines.append(f"  {len(dense)} dense ({sum(f.nbytes for f in dense) / 1e6:.3g} MB): {name}")
    lines.append("  predicted ms of a step's exchanges: "
                 + ", ".join(f"{name} {seconds * 1e3:.4g}" for name, seconds in chosen.totals.items()))
    lines += [f"  the busiest owner serves {chosen.busiest:.2f} x the mean",
              "  clipping norm and update: by a value's owner; if it has none, every rank computes the same"]
    if width is not None:
        lines = [textwrap.fill(line, width, subsequent_indent=6 * " ") for line in lines]
    return "\n".join(lines)


def headline(chosen: Chosen) -> str:
    """Return in one line for which training the plan is. Local."""
    sampled = f", rows of {len(chosen.steps)} sampled steps" if chosen.steps else ""
    codecs = Counter(encoded(chosen.plan).values())
    encodes = "".join(f", {counted(count, 'gradient')} as {codec}" for codec, count in codecs.items())
    network = chosen.network
    ranks, machines = network.ranks, len(network.machines)
    slowest = min(*network.bandwidth_out, *network.bandwidth_in)
    speed = (f"cards of {slowest / 125e3:.4g} Mbit/s, latency {network.latency * 1e6:.3g} us" if machines > 1
             else f"memory {min(network.memory_bandwidth) / 1e9:.3g} GB/s")
    return (f"{counted(ranks, 'rank')} on {counted(machines, 'machine')}, {speed}, "
            f"{counted(chosen.plan.microbatches, 'microbatch')}, allreduce {chosen.plan.allreduce}{encodes}{sampled}")


def as_data(chosen: Chosen) -> dict:
    """Return the same as plain data for JSON. Local."""
    return {"plan": chosen.plan.to_json(), "variables": [asdict(f) for f in chosen.forecasts], "seconds": chosen.totals,
            "network": chosen.network.to_dict(), "sampled_steps": list(chosen.steps),
            "busiest_owner": chosen.busiest, "operations": list(OPERATIONS)}
