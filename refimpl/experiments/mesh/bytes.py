"""Bytes: on each mesh of 1, 2, 4 and 8 ranks, every ledger equals the formula, by variable, phase and kind."""

from refimpl.experiments.cells.report import Finding, Table
from refimpl.experiments.job import measure
from refimpl.experiments.mesh.nets import make_net
from refimpl.plan.layers.sent import bytes_sent

NETS = {
    "perceptron": {"kind": "perceptron", "inputs": 96, "widths": [64, 32], "outputs": 8, "blocks": 8},
    "VGG": {"kind": "vgg", "image_shape": [16, 16, 3], "classes": 10, "stages": [1, 1], "width": 8,
            "connected": [64, 64], "blocks": 8},
}
RANKS, MICROBATCHES, SIZE = (1, 2, 4, 8), 64, 2
PHASES = ("rows", "columns", "out", "allreduce", "control")


def study(quick: bool = False) -> Finding:
    """Train on every mesh and compare. quick: on up to 4 ranks. Local; launches the ranks."""
    wanted = {"nets": NETS, "microbatches": MICROBATCHES, "size": SIZE, "members": RANKS}
    return finding([record for ranks in (RANKS[:3] if quick else RANKS)
                    for record in measure("refimpl.experiments.mesh.ranks:compare_bytes", wanted, ranks, timeout=300)])


def finding(records: list[dict]) -> Finding:
    """Return the table. records: of ``ranks.compare_bytes``. Local."""
    rows, wrong = [], sum(record["different"] for record in records)
    for record in records:
        data, model = map(int, record["mesh"].split("x"))
        layered = bytes_sent(make_net(NETS[record["net"]]).layers, data, model, MICROBATCHES * SIZE // (data * model))
        sent = record["sent"]
        rows.append([record["net"], record["mesh"], *(f"{sent.get(phase, 0):,}" for phase in PHASES),
                     f"{sum(sent.values()) - sent.get('control', 0):,}", f"{float(layered.total):,.0f}",
                     f"{record['ranks'] * record['steps'] * record['keys']:,}", str(record["different"])])
    return Finding("Bytes: the ledger beside the formula", [Table(
        f"Bytes that rank 0 sends in a step, {MICROBATCHES} microbatches of {SIZE} examples",
        ["network", "mesh", *PHASES, "without control", "plan/layers", "compared", "different"], rows)], [
        "Compared: every rank's bytes of every phase, variable and kind, sent and received, with plan/activations.py "
        "and plan/cost.py. " + ("All are equal." if not wrong else f"{wrong} ARE NOT EQUAL."),
        "plan/layers counts a bandwidth-optimal sum of all elements. A schedule cuts them into whole chunks, so the "
        "bytes of a rank may differ from it by a few elements. Control: numbers of examples, and the exact sums of "
        "loss and norm."])
