"""The options of a training, for ``train``, ``compare`` and ``plan``. They have no defaults here: these come later."""

import argparse
from contextlib import suppress
from dataclasses import fields
from functools import partial

from models.data import source_names
from models.own import DEFAULTS as OWN
from models.registry import MODELS, entries, is_own
from refimpl.cli.asked.parser import none_of
from refimpl.cli.asked.values import nonempty, real, slowed, whole
from refimpl.collectives.choose import ALGORITHMS, AUTO_ON, CANONICAL_TREES, MACHINE_TREES, TREES
from refimpl.collectives.schedule import NCCL
from refimpl.plain.without_barriers.consistencies import CONSISTENCIES, DECENTRALISED
from refimpl.plain.without_barriers.corrections import CORRECTIONS
from refimpl.transport.channel import CHANNELS
from refimpl.transport.device.choice import TRANSPORTS

SAID_BY_PLAN = {"architecture": "--architecture", "sparse_as_dense": "--sparse-as-dense",
                "shard_optimizer": "--shard-optimizer", "partitions": "--partitions",
                "scheme": "--partition-scheme", "allreduce": "--allreduce",
                "local_aggregation": "--no-local-aggregation", "search_partitions": "--search-partitions",
                "hot_rows": "--hot-rows", "balance": "--balance", "consistency": "--consistency", "mesh": "--mesh",
                "codec": "--codec"}
"""Options that a plan decides: option -> its name. They are refused beside a plan, which would not use them."""
REDUCERS = ("auto", *ALGORITHMS, NCCL)
SERVED = {name: of for name, (_, of) in CONSISTENCIES.items()}
"""Consistencies that need a server: name -> the text that follows it."""


class _InPlaceOf(argparse.Action):
    """An option that names the model instead of the argument ``position``."""

    def __init__(self, position, *arguments, **named):
        super().__init__(*arguments, **named)
        self.position = position

    def __call__(self, parser, namespace, value, option=None):
        self.position.required = False
        setattr(namespace, self.dest, value)


def add_model(parser: argparse.ArgumentParser):
    """Add the model: one of the registry by position, or the user's by --model; return the class of this option."""
    instead = partial(_InPlaceOf, parser.add_argument("model", choices=list(MODELS), help="one of refimpl's models"))
    parser.add_argument("--model", dest="own_model", type=nonempty, metavar="MODULE:CLASS", action=instead,
                        help="train your own model instead: package.module:Class, which is called with the sizes of "
                             "--set")
    return instead


def named_model(given: dict) -> str | None:
    """Remove the model's name from ``given`` and return it; None if there is none. Raises ValueError for two names."""
    ours, own = given.pop("model", None), given.pop("own_model", None)
    if ours and own:
        raise ValueError(f"--model {own} and {ours} are two models, and a training has one: leave one out")
    if own and not is_own(own):
        raise ValueError(f"--model {own}: it should read package.module:Class"
                         + (f"; for refimpl's {own} leave --model out" if own in MODELS else ""))
    return own or ours


def add_training_options(parser: argparse.ArgumentParser):
    """Add the options that describe a training. Each option's destination is its name in Recipe or Options."""
    what = parser.add_argument_group("what is trained")
    what.add_argument("--data", type=nonempty, metavar="NAME",
                      help=f"{_of_each(lambda e: source_names(e.content))} (default: "
                      f"{_defaults('data')}). With --model: any of these, or package.module:function, which is called "
                      "with microbatches=V, size=B (and seed, if it takes one) and returns Data or (Data, held-out "
                      "Data)")
    what.add_argument("--preset", type=nonempty,
                      help=f"a named set of sizes: {_of_each(lambda e: ', '.join(e.presets))} (default small)")
    what.add_argument("--set", dest="sizes", metavar="SIZE=N", action="append", type=_assignment,
                      help="change one size of the preset, e.g. --set hidden=512; may be repeated")
    what.add_argument("--dtype", choices=["float32", "float64"],
                      help="dtype of parameters and gradients (default float32)")
    what.add_argument("--microbatches", type=whole(), metavar="V",
                      help="number of microbatches in a global batch (default 8)")
    what.add_argument("--microbatch-size", type=whole(), metavar="B",
                      help="examples in a microbatch; of a text: pieces that are read in parallel, streams (default: "
                           f"{_defaults('microbatch_size')}, else 8)")
    what.add_argument("--grow-batch", type=_growth, metavar="FACTOR@N", help="every N steps make microbatches FACTOR "
                      "times as large, in place of a falling rate: say --rate constant with it, e.g. 2@100 (default: "
                      "they do not grow)")
    what.add_argument("--window", type=whole(), metavar="T",
                      help="of a text: the number of words that a step reads of each stream (default 20)")
    what.add_argument("--heldout", type=whole(0), metavar="N",
                      help="number of held-out words or images for evaluation (default 20000)")
    add_mathematics(parser.add_argument_group("what is computed (these options change the numbers)"))
    add_travel_options(parser.add_argument_group(
        "how gradients travel (these options do not change the numbers, but for an --allreduce in another order)"))


def add_mathematics(how):
    """Add the options that change the numbers, beside model and data."""
    how.add_argument("--steps", type=whole(0), help="number of steps (default 300)")
    how.add_argument("--seed", type=int,
                     help="seed of initial values, shuffling, dropout and candidates of a sampled softmax (default 0)")
    how.add_argument("--optimizer", choices=["sgd", "momentum", "nesterov", "adagrad", "adam", "adamw", "lars",
                                                "lamb"],
                     help=f"the optimizer (default: {_defaults('optimizer')}, your own {OWN['optimizer']})")
    how.add_argument("--optimizer-option", dest="optimizer_options", metavar="NAME=X", action="append",
                     type=_assignment, help="set a number of the optimizer, e.g. beta1=0.8; may be repeated")
    how.add_argument("--learning-rate", type=real(), metavar="X",
                     help=f"the learning rate (default: {_defaults('learning_rate')}, your own {OWN['learning_rate']})")
    how.add_argument("--scale-rate", type=whole(), metavar="N", help="the learning rate is meant for N "
                     "microbatches; multiply it by V / N (linear scaling; default: do not scale it)")
    how.add_argument("--rate", choices=["constant", "linear", "cosine", "inverse-sqrt", "one-cycle"],
                     help=f"how the learning rate changes over the steps (default: {_defaults('rate')}, else constant)")
    how.add_argument("--rate-steps", type=whole(0), metavar="N",
                     help="number of steps after which a falling learning rate has reached its end (default: --steps; "
                          "without barriers, the number of an owner's updates). To resume for more steps, give more")
    how.add_argument("--warmup", type=whole(0), metavar="N",
                     help="number of first steps in which the learning rate rises (default 0)")
    how.add_argument("--clip-norm", type=real(above=True, also={"none": None}), metavar="X",
                     help=f"scale gradients down to this global norm, or none (default: {_defaults('clip_norm')}, "
                          "else none)")
    how.add_argument("--weight-decay", type=real(), metavar="X", help="add X times the parameter to its gradient; "
                     "adamw: subtract X times rate times the parameter from it "
                     f"(default: {_defaults('weight_decay')}, adamw 0.01, else 0)")
    how.add_argument("--sum-sparse", dest="average_sparse", action="store_false",
                     help="sum row gradients over microbatches instead of averaging them, as Parallax's code does")
    how.add_argument("--codec", type=_codecs, metavar="WHICH=CODEC,...", help="encode gradients before they are sent. "
                     "WHICH: dense, sparse, or the name of a variable. CODEC: bf16 or fp16 (half the bytes; rounded at "
                     "each node of the microbatch tree); integers:8, :16 or :32 (one scale for all ranks); "
                     "topk:RATIO, threshold:TAU or adacomp:BIN (large elements; a later step sends the others); "
                     "dgc:RATIO:STEPS:NORM (the same with momentum, a warm-up in stages of STEPS steps, and each "
                     "microbatch's gradient clipped to NORM/√V; for --optimizer sgd); onebit, terngrad or "
                     "qsgd:LEVELS (a few bits for each element); powersgd:R (matrices of rank R). "
                     "Example: dense=bf16,sparse=bf16. dense=bf16/integers:8 lets --architecture auto take one "
                     "of these, or none (default: no encoding)")
    how.add_argument("--precision", choices=["bf16", "fp16"], help="compute with parameters, outputs of layers and "
                     "gradients of 16 bits, if the model can; the optimizer updates float32 copies. Only on a CPU, and "
                     "slower there (default: float32)")
    how.add_argument("--device", choices=["cpu", "cuda", "auto"], help="where ranks compute: cpu (default); cuda: "
                     "GPUs, one for each rank or shared; auto: GPUs if each rank finds one. GPUs give other bits than "
                     "CPUs")


def add_consistency(parser):
    """Add how many steps old the values of a worker may be."""
    when = parser.add_argument_group("without barriers (with --architecture ps each run gives other numbers, and "
                                     "--replay repeats them; with allreduce the same number of ranks gives the same "
                                     "numbers)")
    when.add_argument("--consistency", type=_consistency, metavar="WHEN",
                      help="how many steps old the values of a worker may be (default synchronous). With "
                           f"--architecture ps: {', '.join(name + of for name, of in SERVED.items())}. With "
                           "--architecture allreduce each rank trains a replica, and replicas are averaged by "
                           f"{', '.join(name + of for name, of in DECENTRALISED.items())}")
    when.add_argument("--correction", choices=list(CORRECTIONS),
                      help="how an owner corrects stale gradients (default none)")
    when.add_argument("--slow-rank", metavar="RANK=FACTORx", action="append", type=slowed,
                      help="make a rank compute this many times as long, e.g. 2=3x; may be repeated")


def add_travel_options(how):
    """Add the options that change no number, but for an allreduce that adds in another order."""
    how.add_argument("--architecture", choices=["allreduce", "ps", "hybrid", "auto"],
                     help="default hybrid; auto: for each variable the strategy with the shortest predicted time")
    how.add_argument("--plan", type=nonempty, metavar="FILE",
                     help="use this plan: plan.json of a run, or the output of the command plan; you may edit it "
                     "(none: make a new plan)")
    how.add_argument("--mesh", type=nonempty, metavar="DATAxMODEL",
                     help="cut fully connected layers over groups of MODEL ranks; there are DATA groups, and DATA "
                     "x MODEL is the number of ranks. auto: the mesh with the shortest predicted time (default: cut "
                     "no layer)")
    how.add_argument("--sparse-as-dense", action="store_true", help="with allreduce: send all rows of sparse variables")
    how.add_argument("--shard-optimizer", action=argparse.BooleanOptionalAction,
                     help="with allreduce and hybrid: each of N ranks updates 1 / N of the dense variables and keeps "
                          "only this part of the optimizer's state (reduce-scatter, update, allgather)")
    how.add_argument("--partitions", type=whole(), metavar="P",
                     help="number of partitions of each sparse variable (default: N)")
    how.add_argument("--search-partitions", action=argparse.BooleanOptionalAction,
                     help="find the fastest P during the first steps, beginning with --partitions (default: with the "
                          "number of machines)")
    how.add_argument("--hot-rows", type=whole(0, {"auto": "auto"}), metavar="H",
                     help="replicate the first H rows of each sparse variable on all ranks and sum their gradients by "
                          "allreduce; auto: the H with the shortest predicted time")
    how.add_argument("--search-sample", type=whole(), metavar="N",
                     help="with --search-partitions: measure N steps with each P (default 7)")
    how.add_argument("--search-warmup", type=whole(0), metavar="N",
                     help="with --search-partitions: do N steps before measuring each P (default 3)")
    how.add_argument("--memory-limit", type=whole(), metavar="BYTES",
                     help="memory on each rank for rows of the server and their optimizer state (default: no limit)")
    how.add_argument("--partition-scheme", dest="scheme", choices=["interleaved", "contiguous"],
                     help="interleaved: partition p has rows p, p + P, ... (default; it spreads frequent words); "
                          "contiguous: a range of rows")
    how.add_argument("--balance", choices=["bytes", "popularity"],
                     help="spread partitions over the owners by bytes (default), or by how often their rows are pulled")
    how.add_argument("--allreduce", type=_allreduce, metavar="ALGORITHM",
                     help="schedule that sums dense gradients. Default auto: of those that add in the reproducible "
                          f"order, the one with the shortest predicted time; {AUTO_ON}NETWORK: the same, over the "
                          "links of a network. In another order, such as a ring's, the last bits differ. All: "
                          f"{', '.join(REDUCERS)}, {TREES}NETWORK, {CANONICAL_TREES}NETWORK (see collectives trees), "
                          f"{MACHINE_TREES}NETWORK, between machines of several ranks")
    how.add_argument("--transport", choices=TRANSPORTS,
                     help="between GPUs: nccl; staged: through host memory and MPI; auto (default): nccl if possible, "
                          "else staged")
    how.add_argument("--channel", choices=CHANNELS,
                     help="how tensors are written into slots, memory reserved at the receiver. shared: in memory, "
                          "on one machine; landing: by an MPI message; rma: by MPI's one-sided operations; auto: the "
                          "fastest, measured; none (default): MPI messages, no slots")
    how.add_argument("--overlap", action=argparse.BooleanOptionalAction,
                     help="let a thread exchange values and gradients during the forward and backward passes "
                          "(default: on several machines, unless more than 2 ranks share a core; if each machine has "
                          "one rank, dense gradients leave early, without a thread)")
    how.add_argument("--local-aggregation", action=argparse.BooleanOptionalAction,
                     help="merge pulls and pushes of a machine's ranks before they leave the machine (default: do so)")
    how.add_argument("--no-shared-memory", dest="shared_memory", action="store_false",
                     help="send dense gradients as messages, also between ranks of one machine")


def _of_each(tell) -> str:
    return "; ".join(f"{name}: {tell(entry)}" for name, entry in entries().items())


def _defaults(option: str) -> str:
    return ", ".join(f"{name} {entry.defaults[option]}" for name, entry in entries().items()
                     if option in entry.defaults)


def split(given: dict) -> tuple[dict, dict, dict]:
    """Return the given options as (those of Recipe, those of Options, the others)."""
    from models.recipe import Recipe
    from refimpl.training.options import Options

    for name in ("sizes", "optimizer_options"):
        if name in given:
            given[name] = dict(given[name])
    if "slow_rank" in given:
        given["slow_rank"] = {str(rank): factor for rank, factor in given["slow_rank"]}
    recipe, options = ({f.name: given[f.name] for f in fields(each) if f.name in given and f.name != "model"}
                       for each in (Recipe, Options))
    return recipe, options, {name: value for name, value in given.items() if name not in recipe | options}


def with_plan(options: dict) -> dict:
    """Return the options with the plan's JSON in place of its file's name. Local.

    Raises ValueError if the file holds no plan, or for options that a plan decides; OSError if it cannot be read.
    """
    import refimpl.strategies  # noqa: F401 - a plan knows only imported strategies
    from refimpl.plan.validate import read_plan

    said = [SAID_BY_PLAN[name] for name in SAID_BY_PLAN if name in options]
    if options.get("plan", "none") == "none":  # these options also end the plan of a resumed run
        return {**options, "plan": None} if said or "plan" in options else options
    if said:
        raise ValueError(f"--plan already says how variables travel: leave out {', '.join(said)}, or edit the plan")
    plan = read_plan(options["plan"])
    changes_it = {"search_partitions": False, "hot_rows": 0, "codec": {}}  # a resumed run may have done so
    return {**options, **changes_it, "plan": plan, "architecture": str(plan.get("architecture")),
            "consistency": str(plan.get("consistency"))}


def _consistency(text: str) -> str:
    """Return a consistency. Raises ArgumentTypeError if unknown. Its number is checked later, with the ranks."""
    (name, colon, number), forms = text.partition(":"), SERVED | DECENTRALISED
    if name not in forms or bool(colon) != bool(forms[name]):
        raise argparse.ArgumentTypeError(none_of(text, [name + of for name, of in forms.items()]))
    if colon and not number.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r}: {forms[name].removeprefix(':')} must be a whole number")
    return text


def _allreduce(text):
    packed = TREES, CANONICAL_TREES, MACHINE_TREES, AUTO_ON
    if text not in REDUCERS and not text.startswith(packed):
        raise argparse.ArgumentTypeError(none_of(text, (*REDUCERS, *(f"{name}NETWORK" for name in packed))))
    return text


def _codecs(text: str) -> dict[str, str]:
    """Return which -> codec. Whether they exist is checked later, when the variables are known."""
    found = [pair.partition("=") for pair in text.split(",")]
    for which, equals, codec in found:
        if not (which and equals and codec):
            raise argparse.ArgumentTypeError(f"{text!r} should read WHICH=CODEC,WHICH=CODEC, e.g. dense=bf16")
    if len({which for which, _, _ in found}) < len(found):
        raise argparse.ArgumentTypeError(f"{text!r} names the same variables twice: give them one codec")
    return {which: codec for which, _, codec in found}


def _growth(text: str) -> tuple[int, int]:
    factor, at, steps = text.partition("@")
    if not (at and factor.isdecimal() and steps.isdecimal() and int(factor) > 1 and int(steps)):
        raise argparse.ArgumentTypeError(f"{text!r} should read FACTOR@N, a factor of 2 or more after N steps: 2@100")
    return int(factor), int(steps)


def _assignment(text: str):
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise argparse.ArgumentTypeError(f"{text!r} should read NAME=VALUE")
    for read in (int, float, lambda several: tuple(map(int, several.split(",")))):
        with suppress(ValueError):
            return name, read(value)
    return name, value
