"""Equals plain/updating/clipping.py: clipping by the global norm, and the optimizer's update of what a rank keeps."""

from kernels.update import LAYERWISE, move_each, update_dense_each, update_rows
from kernels.update.rates import rate_of
from refimpl.server import ReducedGradient
from refimpl.training.step.layerwise import Step, elementwise


def clip_scale(norm: float, largest: float | None) -> float:
    """Return min(1, largest / norm), the factor of all gradients. Local."""
    return 1.0 if largest is None or norm <= largest else largest / norm


def update_shards(options, number: int, reduced: list[ReducedGradient], scale: float = 1.0,
                  microbatches: int = 1, norms_of=None, variables=(), unscale: float = 1.0) -> float:
    """Do update ``number`` (from 0) with summed gradients; return the learning rate.

    scale: the factor of clipping.  unscale: another factor of all gradients, 1 / the scale of the loss.
    microbatches: V, for ``Options.average_sparse``.
    norms_of: of ``layerwise.elementwise``, for an optimizer that needs the norms of all the model's ``variables``.
    Local, unless norms_of is collective.
    """
    scaled = microbatches / options.scale_rate if options.scale_rate else 1

    def rate(base):
        return rate_of(number, base=base * scaled, rate=options.rate, warmup=options.warmup, steps=options.rate_steps)

    steps = [_step(options, piece, scale, microbatches, unscale) for piece in reduced
             if not piece.shard.variable.statistic]
    name, told = options.optimizer, options.optimizer_options
    if name in LAYERWISE:
        name, told, steps = elementwise(options, number, steps, norms_of, variables)
    for base in dict.fromkeys(s.variable.rate_in(options) for s in steps):
        now, alike = rate(base), [s for s in steps if s.variable.rate_in(options) == base]
        for s in alike:
            if s.ids is not None:
                update_rows(name, s.values, s.state, s.ids, s.gradient, now, step=number + 1, scale=s.scale,
                            decay=s.decay, **told)
        dense = [(s.values, s.state, s.gradient, s.scale, s.decay) for s in alike if s.ids is None]
        update_dense_each(name, dense, now, step=number + 1, **told)
    move_statistics(reduced, options)
    return rate(options.learning_rate)


def move_statistics(reduced: list[ReducedGradient], options):
    """Move running statistics towards the estimates of a step, each at its own rate. Local."""
    moved = [piece for piece in reduced if piece.shard.variable.statistic]
    for rate in dict.fromkeys(piece.shard.variable.rate_in(options) for piece in moved):
        move_each([(piece.shard.values, piece.gradient) for piece in moved
                   if piece.shard.variable.rate_in(options) == rate], rate)


def _step(options, piece: ReducedGradient, scale: float, microbatches: int, unscale: float) -> Step:
    variable = piece.shard.variable
    factor = unscale * (scale if variable.clipped else 1.0)
    if variable.sparse and not options.average_sparse:
        factor *= microbatches
    return Step(variable, piece.shard.values, piece.shard.state, piece.ids, piece.gradient, factor,
                variable.decay_in(options), piece.counts)
