"""How far Das et al.'s networks scale: one efficiency fitted on one figure of their abstract, the others predicted.

The step is theirs (plan/mesh/schedule.py), nodes and networks are their two system balances; latency, sums, reading and
whatever else takes time are in nothing but the fitted efficiency e of computation. It can be read in two ways:

    everywhere   a node computes at e of its peak, alone as among others      speedup = T(1; e) / T(N; e)
    together     alone at its peak, N nodes, with an N-th of the batch, at e  speedup = T(1; 1) / T(N; e)

The first is the plain one. The slower nodes compute, the better exchanges hide; so where it needs e > 1, nodes lose
something together that one alone does not, and only the second can say so. Each has one parameter, fitted on the same
figure.
"""

from typing import Callable

from refimpl.experiments.mesh.published import CLAIMS, FITTED, NETWORKS, Claim
from refimpl.experiments.parallax.study import Finding, Table
from refimpl.plan.mesh.balance import best_groups
from refimpl.plan.mesh.schedule import speedup, step_seconds, work_of
from refimpl.plan.mesh.volumes import exact_best_groups, ring_volume

LEAST, MOST = 1e-3, 1e3  # efficiencies among which one is sought
BATCHES = (256, 1024, 4096)  # of the DNN, which the abstract does not name


def everywhere(claim: Claim, efficiency: float) -> float:
    """Return the predicted speedup where a node alone is as efficient as N together. Local."""
    return speedup(NETWORKS[claim.network], claim.nodes, claim.batch, claim.system, efficiency)


def together(claim: Claim, efficiency: float) -> float:
    """Return the predicted speedup over a node alone at its peak. Local."""
    layers = NETWORKS[claim.network]
    alone = step_seconds(work_of(layers, 1, claim.batch, claim.system))
    return alone / step_seconds(work_of(layers, claim.nodes, claim.batch, claim.system, efficiency))


def fit(predicted: Callable[[Claim, float], float], claim: Claim) -> float:
    """Return the efficiency at which a claim is predicted as it was published: by halving an interval. Local.

    Raises ValueError where no efficiency between LEAST and MOST does that.
    """
    low, high = LEAST, MOST
    at_low, at_high = (predicted(claim, end) - claim.times for end in (low, high))
    if at_low * at_high > 0:
        raise ValueError(f"{claim.network} on {claim.nodes} nodes: no efficiency from {LEAST:g} to {MOST:g} predicts "
                         f"{claim.times:g} x, they give {at_low + claim.times:.3g} to {at_high + claim.times:.3g}")
    for _ in range(60):
        middle = (low * high) ** 0.5
        if (predicted(claim, middle) - claim.times) * at_low > 0:
            low = middle
        else:
            high = middle
    return high


def study(quick: bool = False) -> Finding:
    """Return predictions beside the abstract, and the G of each connected layer. quick: nothing is shorter. Local."""
    same, apart = fit(everywhere, FITTED), fit(together, FITTED)
    rows = [[claim.network, str(claim.batch), str(claim.nodes), f"{claim.system.balance:.0f}", f"{claim.times:g}",
             f"{everywhere(claim, 1.0):.1f}", _beside(everywhere(claim, same), claim),
             _beside(together(claim, apart), claim)] for claim in CLAIMS]
    tables = [Table("Times as fast as one node, predicted beside the abstract",
                    ["network", "minibatch", "nodes", "FLOP/byte", "abstract", "predicted, e = 1",
                     f"everywhere, e = {same:.2f}", f"together, e = {apart:.2f}"], rows), _parts(), _groups(FITTED)]
    return Finding("scaling", "Scaling: Das et al., predicted", tables, _sentences(same, apart))


def _beside(times, claim) -> str:
    return f"{times:.1f} (fitted)" if claim is FITTED else f"{times:.1f} ({times / claim.times - 1:+.0%})"


def _parts() -> Table:
    """Return what a step of each claim consists of: what hides is in no step twice."""
    rows = []
    for claim in CLAIMS:
        works = work_of(NETWORKS[claim.network], claim.nodes, claim.batch, claim.system)
        parts = (3 * sum(w.compute for w in works), 2 * sum(w.gather for w in works), sum(w.exchange for w in works),
                 step_seconds(works))
        rows.append([claim.network, str(claim.batch), str(claim.nodes), *(f"{1e3 * part:,.1f}" for part in parts)])
    return Table("A step at e = 1, ms", ["network", "minibatch", "nodes", "computation", "activations", "weights", "step"],
                 rows)


def _groups(claim) -> Table:
    """Return G*, the exact best G and what it sends of each connected layer of a claim."""
    rows = []
    for layer in (layer for layer in NETWORKS[claim.network] if layer.connected):
        best = exact_best_groups(layer, claim.nodes, claim.batch)
        sent = [ring_volume(layer, claim.nodes, claim.batch, groups).total for groups in (claim.nodes, 1, best)]
        rows.append([layer.name, f"{layer.inputs:,} x {layer.outputs:,}",
                     f"{best_groups(layer, claim.nodes, claim.batch):.2f}", str(best),
                     *(f"{float(count) / 1e6:,.1f}" for count in sent)])
    return Table(f"Connected layers of {claim.network}, minibatch {claim.batch} on {claim.nodes} nodes: MB a node sends",
                 ["layer", "size", "G*", "exact G", "data-parallel", "model-parallel", "hybrid"], rows)


def _sentences(same, apart) -> list[str]:
    """Return what was fitted, assumed, and what is off and why."""
    dnn = next(claim for claim in CLAIMS if "DNN" in claim.network)
    others = ", ".join(f"{speedup(NETWORKS[dnn.network], dnn.nodes, batch, dnn.system):.1f} at {batch}"
                       for batch in BATCHES)
    apart_worst, same_worst = (max((abs(told(claim, e) / claim.times - 1), claim.network) for claim in CLAIMS)
                               for told, e in ((together, apart), (everywhere, same)))
    said = [f"Fitted: the efficiency of computation e, on {FITTED.network}, minibatch {FITTED.batch}, "
            f"{FITTED.nodes} nodes, {FITTED.times:g} x; nothing else. Convolutions are data-parallel, connected layers in the G with the "
            "least exact volume; exchanges go at the card's rate, without latency.",
            *(f"Assumed for {claim.network} on {claim.nodes} nodes: {claim.assumed}." for claim in CLAIMS
              if claim.assumed)]
    if same > 1:
        said.append(f"Everywhere: e = {same:.2f} is no efficiency. At their balance most exchanges of {FITTED.network} "
                    "hide behind computation, so that only faster computation would make them cost what the figure "
                    "says; the others are then off by up to "
                    f"{same_worst[0]:.0%} ({same_worst[1]}). This reading is refuted.")
    said.append(f"Together: {FITTED.nodes} nodes with {FITTED.batch // FITTED.nodes} images each compute at {apart:.2f} of "
                "the speed of one node with all of them: plausible (smaller products, stragglers), and put in the place "
                f"of what the model lacks. The others are off by up to {apart_worst[0]:.0%} ({apart_worst[1]}). "
                "It was chosen after the first reading had failed, so it is a fit that explains, not a test passed.")
    said.append("Off, and why: 128 nodes have as many images each as 64, so that nothing here tells them apart but "
                "exchanges, which hide; what grew there (latency of more rounds, stragglers) is not in the model. "
                f"The DNN hangs on its minibatch: without a fit {others}.")
    return said
