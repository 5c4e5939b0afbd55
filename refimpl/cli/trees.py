"""Pack trees into a network's links; print the best rate, the proof that no rate is better, and the trees."""

import json

from refimpl.cli.asked.values import file, nonempty, whole

HELP = "pack trees into the links of a network: rate, proof, trees, load"
KINDS = ("allreduce", "allgather", "reduce-scatter")


def add(parser):
    """Add the options."""
    from refimpl.collectives.links.named import NAMED

    parser.add_argument("network", type=nonempty, metavar="NETWORK",
                        help="a JSON file, or " + "; ".join(f"{name}: {what}" for name, (*_, what) in NAMED.items()))
    parser.add_argument("--gpus", type=_numbers, metavar="A,B,...", help="use only these ranks (an allocation)")
    parser.add_argument("--kind", choices=KINDS, help="the collective (default allreduce)")
    parser.add_argument("--trees", type=whole(), metavar="K",
                        help="use at most K trees; for an allgather, K from each rank")
    parser.add_argument("--canonical", action="store_true",
                        help="for an allreduce: add in the order of the microbatch tree, with one microbatch on each "
                             "rank")
    parser.add_argument("--output", type=file, metavar="FILE", help="draw the links and their load (.png, .svg, .pdf)")
    parser.add_argument("--json", action="store_true", help="print only the packing, as one JSON object")


def run(given: dict) -> int:
    """Print the packing."""
    from refimpl.collectives.algorithms.halves import one_node_each
    from refimpl.collectives.links import named_links, pack_canonical, pack_trees

    links = named_links(given["network"])
    if "gpus" in given:
        links = links.only(given["gpus"])
    if given.get("canonical"):
        if wrong := [f"--{option}" for option in ("kind", "trees") if option in given]:
            raise ValueError(f"--canonical packs for an allreduce, and takes no {wrong[0]}: leave it out")
        packing = pack_canonical(links, one_node_each(links.ranks))
    else:
        packing = pack_trees(links, given.get("kind", "allreduce"), given.get("trees"))
    if path := given.get("output"):
        from refimpl.collectives.links.draw import draw_packing

        draw_packing(packing, path)
    print(json.dumps(to_json(packing)) if given.get("json") else describe(packing), flush=True)
    return 0


def _numbers(text: str) -> list[int]:
    number = whole(0)
    return [number(part) for part in text.split(",")]


def to_json(packing) -> dict:
    """Return a packing as plain values; rates are fractions, as text. Local."""
    return {"network": packing.links.name, "kind": packing.kind, "rate": str(packing.rate), "best": str(packing.best),
            "proof": packing.proof,
            "trees": [{"root": tree.root, "rate": str(tree.rate), "adds": tree.inward, "ways": tree.ways}
                      for tree in packing.trees],
            "ways": [{"rate": str(rate), "ways": list(ways.items())} for rate, ways in packing.ways],
            "load": [[a, b, str(part)] for (a, b), part in packing.load().items()]}


def describe(packing) -> str:
    """Return a packing in words. Local."""
    n, rate, best = packing.links.ranks, packing.rate, packing.best
    load = sorted(packing.load().values())
    order = "reproducible " * bool(packing.ways)
    lines = [f"{order}{packing.kind} of {n} ranks on {packing.links.name}: rate {_number(rate)}, "
             f"{len(packing.trees)} trees",
             f"  proof  no {order}schedule is faster than {_number(best)}: {packing.proof}"]
    if rate < best:
        lines.append(f"  loss   fewer trees lose {float(1 - rate / best):.1%} of this rate")
    lines.append(f"  load   of the links {_number(load[0])} to {_number(load[-1])}, all together "
                 f"{_number(sum(load) / len(load))}")
    if packing.ways:
        lines += _ways(packing)
    for tree in packing.trees:
        arrow = "<" if tree.inward else ">"
        ways = " ".join(arrow.join(map(str, way)) for way in tree.ways)
        lines.append(f"  {'sum to' if tree.inward else 'from'} {tree.root}, rate {_number(tree.rate)}: {ways}")
    return "\n".join(lines)


def _ways(packing) -> list[str]:
    """Return lines about the order of the sums: what it costs, and where the sums are formed."""
    from refimpl.collectives.links import pack_trees

    free, items = pack_trees(packing.links).rate, packing.items
    lines = ["  order  that of the microbatch tree " + (
        "costs nothing here" if free == packing.rate else
        f"costs {float(1 - packing.rate / free):.1%}: trees in another order have rate {_number(free)}")]
    for rate, ways in packing.ways:
        parts = [">".join(map(str, way)) for item, way in sorted(ways.items()) if len(way) > 1 and item != items.root]
        lines.append(f"  sum at {ways[items.root][0]}, rate {_number(rate)}: {' '.join(parts)}")
    return lines


def _number(value) -> str:
    """Return a fraction, and its approximate value."""
    return f"{value}" if value.denominator == 1 else f"{value} = {float(value):.4g}"
