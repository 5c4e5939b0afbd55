"""The codec of each variable, as the user asked by kind or by name; and the checks whether codecs fit."""

import numpy as np

from refimpl.collectives.prove import prove
from refimpl.gradients.codecs import IDENTITY, codec_of
from refimpl.plan.between import Between
from refimpl.plan.buckets import listed
from refimpl.plan.plan import SYNCHRONOUS, Plan

KINDS = {"dense": False, "sparse": True}
"""Word for all variables of a kind -> whether these are sparse. It leaves out statistics, which have no gradients, and
variables that a codec would not make smaller.
"""


def codecs_allowed(asked: dict[str, str]) -> dict[str, list[str]]:
    """Return kind or variable -> list of codecs. Several, as in "bf16/integers:8", are those among which auto chooses.

    Local. Raises ValueError for an unknown codec, or what is no string.
    """
    for which, text in asked.items():
        if not isinstance(text, str):
            raise ValueError(f"the codec of {which!r} is {text!r}: give its name as a string, for example 'bf16'")
    allowed = {which: text.split("/") for which, text in asked.items()}
    for codec in (codec for some in allowed.values() for codec in some):
        codec_of(codec)
    return allowed


def codecs_to_choose(asked: dict[str, str]) -> dict[str, list[str]]:
    """Return the entries of ``codecs_allowed`` with several codecs. Local. Raises the same errors."""
    return {which: some for which, some in codecs_allowed(asked).items() if len(some) > 1}


def codecs_of(variables, asked: dict[str, str]) -> dict[str, str]:
    """Return variable -> its codec. asked: kind or variable -> codec; an entry of the variable itself wins. Local.

    Raises ValueError for a name that is no variable, or a kind of which the model has none.
    """
    names = [v.name for v in variables]
    for word in asked:
        if word not in names and not any(v.sparse == KINDS.get(word) for v in variables):
            raise ValueError(f"--codec {word}={asked[word]}: the model has no such variables; say dense, sparse, or "
                             f"one of {listed(names)}")
    by_kind = {v.name: asked.get("sparse" if v.sparse else "dense", IDENTITY) for v in variables}
    fitting = {v.name: not v.statistic and codec_of(by_kind[v.name]).fits(v) for v in variables}
    return {name: asked.get(name, by_kind[name] if fits else IDENTITY) for name, fits in fitting.items()}


def encoded(plan: Plan) -> dict[str, str]:
    """Return variable -> codec, for the variables that a plan encodes. Local."""
    return {name: strategy.codec for name, strategy in plan.strategies.items() if strategy.codec != IDENTITY}


def check_codecs(plan: Plan, variables, device: str = "cpu", optimizer: str = "sgd", clip_norm=None):
    """Raise ValueError, with a remedy, unless a training can follow the plan's codecs. Local.

    device: the kind of device on which ranks compute.  optimizer: its name.  clip_norm: None if gradients are not
    clipped.
    """
    for v in (v for v in variables if v.name in encoded(plan)):
        strategy = plan.strategies[v.name]
        told = f"--codec {v.name}={strategy.codec}"
        strategy.coding.check(v, plan.microbatches)
        if strategy.coding.scaled and plan.on_mesh.model > 1:
            raise ValueError(f"{told}: each part of a layer that is cut would get its own scale; leave --mesh out, or "
                             "say bf16")
        if (only := strategy.coding.strategy) not in ("", strategy.name):
            raise ValueError(f"{told}: only the strategy {only} carries what this codec sends, not {strategy.name}: "
                             f"leave --mesh out, or say {only} in the plan")
        if strategy.coding.by_tree and _sums(strategy, v) and not prove(plan.schedule()).canonical:
            raise ValueError(f"{told} rounds at every node of the microbatch tree, and --allreduce {plan.allreduce} "
                             "adds in another order: leave --allreduce out, or say direct")
        if strategy.coding.optimizer not in ("", optimizer):
            raise ValueError(f"{told} has its own momentum, and {optimizer} would change what it sends once more: say "
                             f"--optimizer {strategy.coding.optimizer}, or topk:{strategy.coding.ratio:g}")
        if clip_norm is not None and getattr(strategy.coding, "norm", None) is not None:
            raise ValueError(f"{told} clips the gradient of each microbatch, and --clip-norm {clip_norm:g} would clip "
                             "their sum once more: say --clip-norm none, or leave out the norm at the end of the codec")
        if plan.consistency != SYNCHRONOUS:
            raise ValueError(f"{told}: without barriers gradients are not encoded; leave --codec out, or say "
                             "--consistency synchronous")
        if device != "cpu":
            raise ValueError(f"{told}: gradients on a GPU are not encoded; leave --codec out, or say --device cpu")


def _sums(strategy, variable) -> bool:
    """Return whether the plan's allreduce sums a part of a variable."""
    return any(phase == "allreduce" for _, part in strategy.parts(variable) for phase, _ in part.keys)


def scale_bytes(placed: list, ranks: int) -> dict:
    """Return the bytes with which ranks agree on scales: 4 for each ``placed`` (variable, strategy). Local."""
    if not placed[0][1].coding.scaled:
        return {}
    return {("scale", "", "control"): Between.to_all(np.full(ranks, 4 * len(placed)))}
