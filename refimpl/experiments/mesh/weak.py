"""Weak scaling: 1 to 8 machines at 200 Mbit/s, each with the same number of examples, computation replayed.

The mesh with the fewest bytes by the formula is compared with data-parallel training. Replayed seconds are those of one
core. Slower computation has the effect of a faster network.
"""

from refimpl.experiments.cells.report import Finding, Table
from refimpl.experiments.job import BYTES_A_SECOND, RATE, measure
from refimpl.experiments.mesh.nets import make_net, measure_seconds
from refimpl.plan.layers.sent import bytes_sent
from refimpl.plan.layers.volumes import divisors

NET = {"image_shape": (32, 32, 3), "classes": 10, "stages": (1, 1, 2, 2, 2), "width": 32, "connected": (2048, 2048),
       "blocks": 8}
"""VGG-A for CIFAR with half of each width: a quarter of both its bytes and its computation."""
SIZE, EACH = 8, 8  # examples of a microbatch; microbatches of a rank, so that K is at most 8
MACHINES, SLOWDOWNS = (1, 2, 4, 8), (1, 8)


def study(quick: bool = False) -> Finding:
    """Run both meshes on each number of machines. quick: on 1 and 4, and smaller layers. Local."""
    net = {**NET, "width": 16, "connected": (1024, 1024)} if quick else NET
    seconds, took, meshes = measure_seconds(net, SIZE), {}, {}
    layers = make_net({"kind": "vgg", **net}).layers
    for machines in MACHINES[::2] if quick else MACHINES:
        meshes[machines] = best_mesh(layers, machines)
        slowdowns = SLOWDOWNS[:1] if quick else SLOWDOWNS
        cells = {(machines, mesh, str(slowdown)): {
            "mesh": mesh, "microbatches": machines * EACH, "size": SIZE,
            "net": {"kind": "replay", "seconds": seconds, "slowdown": slowdown, **net}}
            for slowdown in slowdowns for mesh in dict.fromkeys((f"{machines}x1", meshes[machines]))}
        found = measure("refimpl.experiments.mesh.ranks:time_steps", {"cells": [*cells.values()], "rounds": 3}, 1,
                        machines, 400)
        took |= {cell: seconds for cell, (seconds, _) in zip(cells, found)}
    return finding(layers, sum(map(sum, seconds.values())) * EACH, took, meshes)


def best_mesh(layers, machines: int, examples: int = SIZE * EACH) -> str:
    """Return the mesh whose ranks send least. examples: of a rank. Local."""
    model = min((k for k in divisors(machines) if k <= EACH),
                key=lambda k: (bytes_sent(layers, machines // k, k, examples).total, k))
    return f"{machines // model}x{model}"


def finding(layers, computation: float, took: dict, meshes: dict) -> Finding:
    """Return the table. computation: replayed seconds of a step, not slowed down.  took: (machines, mesh, slowdown) ->
    seconds of a step.  meshes: machines -> the best by the formula. Local."""
    rows, most, said = [], max(machines for machines, _, _ in took), []
    for (machines, mesh, slowdown), seconds in sorted(took.items(), key=lambda item: (int(item[0][2]), item[0][0])):
        alone = took[1, "1x1", slowdown]
        data, model = map(int, mesh.split("x"))
        sent = float(bytes_sent(layers, data, model, SIZE * EACH).total)
        predicted = computation * int(slowdown) + sent / BYTES_A_SECOND
        rows.append([slowdown, str(machines), f"{mesh}{' (best)' if mesh == meshes[machines] else ''}",
                     f"{sent / 1e6:.1f}", f"{predicted:.2f}", f"{seconds:.2f}", f"{seconds / predicted - 1:+.0%}",
                     f"{machines * SIZE * EACH / seconds:.0f}", f"{machines * alone / seconds:.2f}",
                     f"{machines * computation * int(slowdown) / predicted:.2f}"])
    for slowdown in dict.fromkeys(slowdown for _, _, slowdown in took):
        whole, best = (most * took[1, "1x1", slowdown] / took[most, mesh, slowdown]
                       for mesh in (f"{most}x1", meshes[most]))
        said.append(f"Slowed down {slowdown} x, {most} machines are {best:.2f} times one as {meshes[most]}, and "
                    f"{whole:.2f} data-parallel.")
    return Finding("Weak scaling, computation replayed", [Table(
        f"{SIZE * EACH} images a machine; VGG-A for CIFAR, narrower: "
        f"{sum(layer.weights for layer in layers) / 1e6:.1f} million weights",
        ["slowed down", "machines", "mesh", "MB sent", "s, predicted", "s", "off", "images/s", "times one machine",
         "predicted"], rows)], [
        f"{RATE}; computation alone takes {computation:.2f} s a step, times the slowdown; predicted is that and the "
        "formula's bytes at the cards' rate, one after the other. Seconds are the least of steps in turns. "
        "What overlaps makes a step shorter, what the trainer does itself on shared cores makes it longer.",
        'SplitBrain\'s abstract says "nearly linear speedup" for VGG over CIFAR10, and nothing of network, batch or '
        "machines. " + " ".join(said)])
