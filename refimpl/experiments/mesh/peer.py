"""The peer: PyTorch's two-dimensional DeviceMesh, ColwiseParallel and RowwiseParallel layers, over gloo.

Both train the same net on the same mesh in the same processes, in turns. bench/peers/torch_mesh.py is what a PyTorch
programmer would write.
"""

from refimpl.experiments.cells.report import Finding, Table
from refimpl.experiments.job import RATE, measure

NET = {"kind": "vgg", "image_shape": (32, 32, 3), "classes": 10, "stages": (1, 1, 1), "width": 16,
       "connected": (2048, 2048), "blocks": 4, "augment": False}
"""It has few convolutions, so that two cores suffice, and mostly sends its connected layers."""
RANKS, MEMBERS, EXAMPLES = 4, (1, 2, 4), 256
PLACES = {"4 machines": (1, RANKS, "halving-doubling", 1.2), "1 machine": (RANKS, 0, "direct", 1.0)}
"""Place -> (ranks a machine, emulated machines, our allreduce, wanted ratio)."""


def study(quick: bool = False) -> Finding:
    """Race on four machines and on one. quick: a few turns of 2 x 2. Local."""
    wanted = {"net": NET, "members": (2,) if quick else MEMBERS, "examples": EXAMPLES,
              "seconds": 1 if quick else 20, "rounds": 3 if quick else 9}
    return finding({(place, record["mesh"]): record
                    for place, (ranks, machines, allreduce, _) in PLACES.items()
                    for record in measure("refimpl.experiments.mesh.ranks:race_peer",
                                          {**wanted, "allreduce": allreduce}, ranks, machines, 480)})


def finding(records: dict) -> Finding:
    """Return the table. records: (place, mesh) -> of ``ranks.race_peer``. Local."""
    rows, said = [], []
    for (place, mesh), record in records.items():
        ours, *theirs = record["rows"]
        told = [[f"{record['examples'] / peer['seconds']:.0f}", f"{peer['ratio']:.2f}",
                 "{:.2f} to {:.2f}".format(*peer["ratios"])] for peer in theirs]
        moved = [f"{record['card'][name][0] / 1e6:.1f}" if name in record["card"] else ""
                 for name in ("refimpl", "torch")]
        rows.append([place, mesh, f"{record['examples'] / ours['seconds']:.0f}", *(told[0] if told else [""] * 3),
                     f"{PLACES[place][3]:g}", *moved])
        most = sorted(record["phases"].items(), key=lambda item: -item[1])[:4]
        said.append(f"{place}, {mesh}: our step is " + ", ".join(f"{name} {1e3 * took:.0f} ms" for name, took in most))
    return Finding("Beside PyTorch's two-dimensional DeviceMesh", [Table(
        "Images a second, and the ratio of neighbouring turns", ["network", "mesh", "refimpl", "torch", "times as fast",
        "spread", "aimed at", "MB on the busiest card, refimpl", "torch"], rows)], [
        f"{RANKS} ranks, {EXAMPLES} images of 32 x 32 a step, a microbatch a rank, connected "
        f"layers {' and '.join(map(str, NET['connected']))}; between machines {RATE}. PyTorch: features in "
        "DistributedDataParallel over all ranks, the two hidden layers column- and row-parallel (DTensor), their "
        "gradients summed over the data dimension in one flat allreduce after the backward pass.",
        "; ".join(said) + "."])
