"""Plan a training: choose each variable's strategy on a network, and print what each strategy would cost.

No rank is started, and nothing is trained. The command only reads data, to count the rows that a step touches.
"""

import json
from dataclasses import asdict
from pathlib import Path

from models.registry import is_own
from refimpl.cli.asked.options import add_consistency, add_model, add_training_options, named_model, split, with_plan
from refimpl.cli.simulate import add_network_options, network_from
from refimpl.cli.told.tables import console, table_of
from refimpl.cli.asked.values import file, nonempty, seconds, whole
from refimpl.words import counted

REFUSALS = (ValueError, OSError)
COMPUTE = 0.1  # seconds


def add(parser):
    """Add the options."""
    parser.conflict_handler = "resolve"  # --rate is the network's here, not the learning rate's
    add_model(parser)
    add_training_options(parser)
    add_consistency(parser)
    run = parser.add_argument_group("plan")
    run.add_argument("--ranks", type=whole(), default=4, metavar="N", help="number of ranks (default 4)")
    run.add_argument("--machines", type=whole(), metavar="M",
                     help="number of machines (default 1; with --rate or --rates, one for each rank)")
    run.add_argument("--sampled-steps", type=whole(), default=4, metavar="N",
                     help="count the rows that the first N steps touch (default 4)")
    run.add_argument("--compute", type=seconds, metavar="SECONDS",
                     help="time that a worker computes in a step (default 0.1). With --slow-rank and --consistency it "
                     "predicts trainings without barriers")
    run.add_argument("--channel", action="store_true",
                     help="print the slots of a tensor channel, too: static, bounded or dynamic, their bytes")
    run.add_argument("--output", type=file, metavar="FILE", help="write the plan to FILE, for train --plan FILE")
    run.add_argument("--json", action="store_true", help="print one JSON object")
    net = parser.add_argument_group("network")
    net.add_argument("--network", type=nonempty, metavar="FILE",
                     help="the measured network: network.json of a run on these machines")
    add_network_options(net)


def run(given: dict) -> int:
    """Print the plan; with --output, write it."""
    from refimpl.cli.told.layers import print_layers
    from refimpl.plan.channel import rows_of_table, transfers_of
    from refimpl.plan.layers import report
    from refimpl.plan.report import as_data

    model, network, channel = named_model(given), _network(given), given.pop("channel", False)
    chosen = _choose(model, given, network)
    stragglers, layers = _stragglers(given, chosen), report.layered(chosen, given.get("compute", 0.0))
    slots = transfers_of(chosen.plan, chosen.predictor) if channel else None
    if path := given.get("output"):
        _write(path, chosen.plan)
    if given.get("json"):
        told = {} if stragglers is None else {"without_barriers": [asdict(each) for each in stragglers]}
        told |= {} if layers is None else {"layered": report.as_data(layers)}
        told |= {} if slots is None else {"channel": [slot._asdict() for slot in slots]}
        print(json.dumps({**as_data(chosen), **told}))
        return 0
    print_table(model, chosen)
    if layers is not None:
        print_layers(model, chosen, layers)
    if stragglers is not None:
        print_stragglers(stragglers, *_computation(given), chosen)
    if slots is not None:
        print_slots(rows_of_table(slots))
    if path:
        named = f"--model {model}" if is_own(model) else model
        print(f"The plan is in {path}; you may edit it. Train with it: train {named} --microbatches "
              f"{chosen.plan.microbatches} --plan {path}, on {counted(chosen.plan.ranks, 'rank')}")
    return 0


def _write(path, plan):
    from refimpl.training.run.files import write_json

    try:
        write_json(Path(path), plan.to_json())
    except OSError as problem:
        raise OSError(f"cannot write the plan to {path}: {problem.strerror}; give another --output") from problem


def _network(given):
    """Return the network of the file, or the network that the options describe if there is no file."""
    from refimpl.collectives.effort import of_plan, require
    from refimpl.collectives.simulation.network import load_network

    ranks = given["ranks"]
    machines = given.get("machines", ranks if {"rate", "rates"} & given.keys() else 1)
    require("to plan a training", ranks, of_plan)
    if not 1 <= machines <= ranks:
        raise ValueError(f"{ranks} ranks on {machines} machines: each machine needs a rank; give more --ranks or fewer "
                         "--machines")
    on = tuple(tuple(range(m * ranks // machines, (m + 1) * ranks // machines)) for m in range(machines))
    if "network" in given:
        try:
            return load_network(Path(given["network"]), on)
        except OSError as problem:
            raise OSError(f"cannot read --network {given['network']}: {problem.strerror}; it is the network.json of a "
                          f"run on several machines, or leave it out and say --rate") from problem
    return network_from(given, on)


def _choose(model, given, network):
    """Return the plan, and the predictions behind it, for the training that the options describe."""
    from refimpl.training.planning.plan_ahead import plan_ahead

    recipe, options, _ = split({name: value for name, value in given.items() if name != "rate"})
    options.pop("slow_rank", None)  # only for this command's table
    if with_plan(options).get("plan"):
        raise ValueError("plan makes a plan; to follow one, give --plan FILE to train")
    options.pop("plan", None)  # "none"
    return plan_ahead(model, network, given["sampled_steps"], **recipe, **options)


def _computation(given):
    """Return (seconds of a worker's computation, (rank, factor) of each slow rank)."""
    return given.get("compute", COMPUTE), given.get("slow_rank", [])


def _stragglers(given, chosen):
    """Return predictions of trainings without barriers; None if not asked for. Raises ValueError without a server."""
    from refimpl.plan.without_barriers import predict_without_barriers, seconds_with

    if not {"compute", "slow_rank", "consistency"} & given.keys():
        return None
    each = seconds_with(*_computation(given), chosen.plan.ranks)
    return predict_without_barriers(chosen.plan, chosen.predictor, each, given.get("consistency"))


def print_table(model: str, chosen):
    """Print a row for each variable: bytes and time of each strategy, choice, reason; then architectures. Local."""
    from refimpl.plan.report import OPERATIONS, headline

    out = console(160)
    out.print(_variables(model, chosen), _architectures(chosen))
    carried = ("are counted at the card that carries the most, in and out" if len(chosen.network.machines) > 1
               else "are those of all ranks together")
    out.print(f"{headline(chosen)}. ms: the predicted time of all exchanges of a step in which this variable has this "
              f"strategy and all others keep theirs. MB {carried}.", highlight=False)
    if any("reduce-scatter" in f.candidates for f in chosen.forecasts):
        out.print("For dense variables, allgather means reduce-scatter, update, allgather (--shard-optimizer).")
    out.print(f"The busiest owner serves {chosen.busiest:.2f} x as many bytes as the mean.", highlight=False)
    for line in OPERATIONS:
        out.print(f"- {line}", highlight=False)


def print_slots(rows):
    """Print the slots of a tensor channel, a row for each variable, phase and kind. Local."""
    out = console(160)
    out.print(table_of("slots of a tensor channel", ("variable", "phase", "kind", "form", "slots", "largest, bytes",
                                                     "bytes a step", "longest, ms"),
                       [(name, phase, kind, form, f"{count:,}", f"{largest:,}", f"{nbytes:,}", f"{1e3 * seconds:,.4g}")
                        for name, phase, kind, form, count, largest, nbytes, seconds in rows],
                       ("variable", "phase", "kind", "form")))
    out.print("Each slot is for one pair of ranks. A tensor has n bytes. Static: the plan fixes the shape; n + 16 "
              "bytes. Bounded: at most 1 MiB of rows; n + 24. Dynamic: the slot holds the shape, and the reader "
              "fetches the tensor; n + 48.", highlight=False)


def print_stragglers(predictions, compute: float, slow, chosen):
    """Print a row for each consistency: throughput, staleness, bytes. slow: (rank, factor) of slow ranks. Local."""
    out, synchronous = console(160), predictions[0].steps
    slowly = "".join(f", rank {rank} {factor:g} times as long" for rank, factor in slow)
    rows = [(p.consistency, f"{p.steps:,.4g}", f"{p.steps / synchronous:.2f}", f"{p.staleness:.2f}",
             f"{p.nbytes / p.applied / 1e6:,.4g}") for p in predictions]
    out.print(table_of("training without barriers, predicted",
                       ("consistency", "steps/s", "x synchronous", "staleness", "MB a step"), rows, ("consistency",)))
    out.print(f"{chosen.plan.ranks} workers compute for {compute:g} s in each step{slowly}. Steps/s: applied steps "
              "of all workers together, while all of them work. Staleness: updates between a worker's pull and its "
              f"push. A worker's step moves {predictions[0].nbytes:,.0f} bytes between ranks; MB a step also counts "
              "dropped pushes. There is no local aggregation.", highlight=False)


def _variables(model, chosen):
    rows = []
    for f in chosen.forecasts:
        cells = []
        for name in ("as-dense", "allgather", "server") if f.sparse else ("allreduce", "reduce-scatter", "server"):
            found = f.candidates.get(name)
            cells += ["-", "-"] if found is None else [f"{found.card_bytes / 1e6:,.4g}", f"{found.step * 1e3:,.4g}"]
        rows.append([f.variable, "sparse" if f.sparse else "dense", f"{f.nbytes / 1e6:,.4g}",
                     f"{f.alpha:.3g}" if f.sparse else "1", *cells, f.strategy, f.reason])
    return table_of(f"{model}: plan {chosen.plan.architecture}",
                    ("variable", "kind", "MB", "α", "allreduce: MB", "ms", "allgather: MB", "ms", "server: MB", "ms",
                     "strategy", "reason"), rows, words=("variable", "kind", "strategy", "reason"),
                    whole=("variable", "strategy", "ms"), padding=(0, 1))


def _architectures(chosen):
    best = min(chosen.totals.values())
    rows = [(name, f"{seconds * 1e3:,.4g}", f"{seconds / best:.2f}" if best else "1.00")
            for name, seconds in chosen.totals.items()]
    return table_of("exchanges of a step, predicted", ("architecture", "ms", "of the best"), rows, ("architecture",))
