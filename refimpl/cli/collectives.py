"""Show a collective algorithm: what is proved about its schedule, and its space-time picture. Nothing is sent."""

import json

from refimpl.cli import exactness, simulate, trees
from refimpl.cli.asked.values import file, whole
from refimpl.words import counted

REFUSALS = (ValueError, OSError)


def add(parser):
    """Add the actions and their options."""
    from refimpl.collectives.choose import ALGORITHMS
    from refimpl.collectives.schedule import KINDS

    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    for name, action in (("exactness", exactness), ("simulate", simulate), ("trees", trees)):
        action.add(actions.add_parser(name, help=action.HELP, description=action.__doc__,
                                      argument_default=parser.argument_default))
    show = actions.add_parser("show", help="print properties and picture", argument_default=parser.argument_default,
                              description="Prove an algorithm, and draw it.")
    names = ["auto", *ALGORITHMS]
    show.add_argument("algorithm", choices=names, metavar="ALGORITHM", help=", ".join(names))
    show.add_argument("--ranks", type=whole(), required=True, metavar="N", help="number of ranks")
    show.add_argument("--microbatches", type=whole(), metavar="V", help="default: one on each rank")
    show.add_argument("--kind", choices=KINDS, help="the whole (default), or only one of its halves")
    show.add_argument("--machines", type=whole(), nargs="+", metavar="SIZE",
                      help="with hierarchical: how many ranks each machine has, in order of rank")
    show.add_argument("--output", type=file, metavar="FILE", help="draw the picture into FILE (.png, .svg or .pdf)")
    show.add_argument("--json", action="store_true", help="print only the properties, as one JSON object")


def run(given: dict) -> int:
    """Do the action; return its status."""
    return {"exactness": exactness.run, "simulate": simulate.run, "trees": trees.run,
            "show": _show}[given["action"]](given)


def _show(given: dict) -> int:
    from refimpl.collectives import make_schedule
    from refimpl.collectives.draw import draw, draw_text
    from refimpl.collectives.effort import of_proof, require
    from refimpl.transport.machines import of_sizes

    ranks = given["ranks"]
    microbatches = given.get("microbatches", ranks)
    require(f"to show {given['algorithm']} of {microbatches} microbatches", ranks,
            lambda fewer: of_proof(given["algorithm"], fewer, given.get("microbatches", fewer)))
    machines = of_sizes(given["machines"], ranks) if "machines" in given else None
    schedule = make_schedule(given["algorithm"], ranks, microbatches, given.get("kind", "allreduce"), machines)
    found = properties(schedule, microbatches)
    if path := given.get("output"):
        title = (f"{found['algorithm']}: {found['kind']} over {counted(ranks, 'rank')}, {found['rounds']} rounds, "
                 f"{max(found['sent']):.3g} n sent, {'' if found['canonical'] else 'not '}in reproducible order")
        try:
            found["picture"] = str(draw(schedule, path, title))
        except (ValueError, OSError) as problem:
            raise ValueError(f"cannot draw into {path}: {getattr(problem, 'strerror', None) or problem}") from problem
    if given.get("json"):
        print(json.dumps(found))
        return 0
    print(describe(found))
    if found["rounds"]:
        print(f"\n{draw_text(schedule)}\n\n2-3>r1: sends chunks 2 and 3 to rank 1.  +2: adds a chunk 2 to its own.")
    return 0


def properties(schedule, microbatches: int) -> dict:
    """Return what is proved about a schedule, for JSON. sent, received, added, bound: in vectors. Local."""
    from refimpl.collectives import check_programs, prove

    proof = prove(schedule)
    check_programs(schedule.programs(), schedule.name)
    link = proof.busiest_link
    return {
        "algorithm": schedule.name, "kind": schedule.kind, "ranks": schedule.ranks, "microbatches": microbatches,
        "chunks": proof.chunks, "canonical": proof.canonical, "rounds": proof.rounds,
        "sent": [n / proof.chunks for n in proof.chunks_sent],
        "received": [n / proof.chunks for n in proof.chunks_received],
        "added": [n / proof.chunks for n in proof.chunks_added], "bound": proof.bound / proof.chunks,
        "busiest_link": link and {"source": link[0], "destination": link[1], "sent": link[2] / proof.chunks},
        "messages_at_once": proof.ports,
    }


def describe(found: dict) -> str:
    """Return the properties as lines of text. Local."""
    link = found["busiest_link"]
    ends = {"allreduce": "every rank ends with", "reduce-scatter": "each chunk's owner ends with",
            "allgather": "every rank gets"}[found["kind"]]
    what = "each chunk once" if found["kind"] == "allgather" else "every contribution exactly once"
    lines = [
        f"{found['algorithm']}: {found['kind']} over {counted(found['ranks'], 'rank')}, "
        f"{counted(found['microbatches'], 'microbatch')}, a vector of n bytes in {counted(found['chunks'], 'chunk')}",
        f"  proved      {ends} {what}",
        "  order       " + ("reproducible: every sum is a node of the microbatch tree" if found["canonical"] else
                            "not reproducible: deterministic, but the sums are not those of the microbatch tree"),
        "  deadlock    none, even if a send waits for its receive, or a rank runs ahead of others",
        f"  rounds      {found['rounds']}, a rank sends or receives at most "
        f"{counted(found['messages_at_once'], 'message')} at once",
        f"  sent        {max(found['sent']):.3g} n by the busiest rank, {min(found['sent']):.3g} n by the idlest; "
        f"lower bound {found['bound']:.3g} n",
        f"  received    {max(found['received']):.3g} n by the busiest rank, "
        f"{min(found['received']):.3g} n by the idlest",
        f"  added       {max(found['added']):.3g} n on the busiest rank",
    ]
    if link:
        lines.append(f"  link        busiest: rank {link['source']} to rank {link['destination']}, "
                     f"{link['sent']:.3g} n")
    if "picture" in found:
        lines.append(f"  picture     {found['picture']}")
    return "\n".join(lines)
