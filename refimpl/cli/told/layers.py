"""The tables of a model's layers (data-, model- or hybrid-parallel) and of the mesh of all ranks."""

from refimpl.cli.told.tables import console, table_of
from refimpl.words import counted


def print_layers(model: str, chosen, found):
    """Print a row for each layer and mesh, and their meaning. chosen: the plan.  found: its ``Layered``. Local."""
    out, ranks = console(160), chosen.plan.ranks
    out.print(_layers(model, chosen, found), _meshes(found, len(chosen.network.machines)))
    out.print(f"MB: what one rank sends for a layer, in a step of {chosen.batch:,} examples on "
              f"{counted(ranks, 'rank')}. data: the layer is whole on each rank. model: it is cut over all ranks. "
              "hybrid: it is cut over groups of N / G ranks, with the best G. FLOP/byte: of a layer that is whole. "
              "G* = √(2 N MB in² / (ofm k² 2)) (Das et al.). exact G: the divisor of N that sends least.",
              highlight=False)
    faster = [f"; {mesh.name} would take {mesh.seconds / found.chosen.seconds:.3g} of its time, and {mesh.refusal}"
              for mesh in found.meshes if mesh.seconds < found.chosen.seconds]
    out.print(f"Of the meshes that need no change, {found.chosen.name} (DATA x MODEL) has the shortest predicted time"
              f"{''.join(faster)}. MB: what one rank sends. ms: the exchanges alone, without overlap.", highlight=False)
    share = chosen.batch / ranks
    for model_ranks, batch in found.crossing.items():
        out.print(f"- K = {model_ranks} sends less than data-parallel while a rank has fewer than {float(batch):,.4g} "
                  f"examples in a step; here it has {share:,.4g}.", highlight=False)


def _layers(model, chosen, found):
    rows = [(c.layer.name, f"{float(c.flop) / 1e9:,.4g}", f"{float(c.intensity):,.4g}", c.mode, str(c.groups),
             _mega(c.whole), _mega(c.cut), "-" if c.hybrid is None else _mega(c.hybrid), f"{c.star:.3g}", str(c.exact),
             c.reason) for c in found.layers]
    return table_of(f"{model}: layers on {counted(chosen.plan.ranks, 'rank')}, each by itself",
                    ("layer", "GFLOP", "FLOP/byte", "mode", "G", "MB: data", "model", "hybrid", "G*", "exact G", "why"),
                    rows, words=("layer", "mode", "why"), whole=("layer", "mode"), padding=(0, 1))


def _meshes(found, machines):
    rows = [(mesh.name, _mega(mesh.sent.into), _mega(mesh.sent.out_of), _mega(mesh.sent.shards),
             _mega(mesh.sent.replicas), _mega(mesh.sent.total), _mega(mesh.card), f"{mesh.seconds * 1e3:,.4g}",
             f"{float(mesh.resident) / 1e6:,.4g}", "chosen" if mesh is found.chosen else mesh.refusal)
            for mesh in found.meshes]
    return table_of("the mesh of all ranks", ("DATA x MODEL", "MB: into shards", "out of", "shards", "replicas", "sum",
                    "busiest card" if machines > 1 else "in memory", "ms", "M parameters held", ""), rows,
                    ("DATA x MODEL", ""), ("DATA x MODEL",))


def _mega(count) -> str:
    return f"{float(count) / 1e6:,.4g}"
