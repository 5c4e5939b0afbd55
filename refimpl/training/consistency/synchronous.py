"""Synchronous training: every step computes with the values of the step before, and updates once, on all ranks.

    pull ─▶ forward, backward, microbatch by microbatch ─▶ sums over all ranks ─▶ clip by the global norm ─▶ update
"""

from functools import partial
from typing import Callable

import numpy as np

from refimpl.gradients import ExactSum
from refimpl.training.step.update import update_shards
from refimpl.training.device import memory_for
from refimpl.training.mesh.rounds import MeshStep
from refimpl.training.norm import clip_scale, norm_of
from refimpl.training.step.calls import Calls
from refimpl.training.step.first_step import FirstCalls
from refimpl.training.step.overlapped import OverlappedStep
from refimpl.training.step.scalars import check_losses
from refimpl.training.step.sequential import SequentialStep
from refimpl.training.step.streams import open_streams
from refimpl.training.step.targets import MODULUS, Targets

ERROR, TARGETS = 1 << 16, 1 << 32
"""What a rank adds to the count of problems for an error of its own, more than there are ranks; and times how many
targets it misses (``Targets.deviation``)."""

LESS = "Reduce --microbatch-size, with more --microbatches"


class Synchronous:
    """The steps of a training whose ranks all wait for each other. Collective: all ranks call ``step`` alike.

    parameters: the ``Parameters``.
    overlap: whether exchanges go on beside the computation.
    """

    def __init__(self, model, options, parameters, device, timeline, overlap: bool):
        self.model, self.options, self.parameters, self.device = model, options, parameters, device
        self.comm, self.timeline = parameters.comm, timeline
        self.calls: Calls | None = None  # before the first step
        self.targets = Targets(self.comm)
        self.mesh = None
        if parameters.plan.on_mesh.model > 1:
            self.mesh = MeshStep(model, parameters, options.seed, device.xp, overlap)
            overlap = False  # its own
        self.make = partial(OverlappedStep, streams=open_streams(device.xp)) if overlap else SequentialStep

    def step(self, number: int, batches: dict, needs: dict, wanted: dict, examples: int, starts: bool,
             meanwhile: Callable[[], None]) -> dict:
        """Do step ``number`` (from 0); return its loss, gradient norm and learning rate, the same on every rank.

        batches, needs: microbatch -> its batch, and the rows it needs.  wanted: of ``Parameters.wanted``.
        examples, starts: targets of the global batch, and whether it starts an epoch, as this rank's data says.
        meanwhile: work of the host's own while a GPU computes.
        """
        if self.calls is None:
            self.calls = FirstCalls(self.model)
            self.targets.learn(number, batches, examples)
        step = self.make(self.parameters, needs, wanted, self.timeline)
        try:
            step.begin()
            count_targets = partial(self.targets.count, number, batches, examples, starts)
            losses, error = self._compute(number, step, batches, count_targets)
            reduced, loss, norm = self._sum_up(step, losses, error, meanwhile)
            with self.timeline.phase("update"):
                rate = self.update(number, reduced, clip_scale(norm, self.options.clip_norm))
        finally:
            step.end()
        self.calls = Calls(self.model)
        return {"loss": loss, "gradient_norm": norm, "learning_rate": rate}

    def _compute(self, number, step, batches, count_targets):
        """Run the model on this rank's microbatches, adding up gradients; return their losses, and what went wrong."""
        losses = []
        with self.timeline.phase("compute"):
            try:
                count_targets()
                if self.mesh is not None:
                    losses = self.mesh.compute(number, step, batches)
                    check_losses(losses)
                    return losses, None
                for v, batch in batches.items():
                    gradients = None
                    if batch is not None:
                        batch.ready = partial(step.ready, v)
                        with memory_for(f"microbatch {v}", LESS):
                            loss, gradients = self.calls.compute(v, step.dense, step.rows(v), batch)
                        self.comm.stay_one()
                        losses.append((v, loss))
                    step.add(v, gradients)
                self.calls.end()
                check_losses(losses)
                return losses, None
            except BaseException as problem:  # a model may also call sys.exit
                if self.mesh is not None:
                    raise  # its group waits in the middle of a round: only an abort message reaches it
                return [], problem

    def _sum_up(self, step, losses, error, meanwhile):
        """Return what this rank keeps of the reduced gradients, the global loss and norm; communicator free again."""
        reduced = []
        for pieces in step.sums(error):
            reduced += pieces
            with self.timeline.phase("norm"):
                step.scalars.add(pieces)
        if self.device.index is not None:
            with self.timeline.phase("data"):
                meanwhile()
        with self.timeline.phase("norm" if self.device.index is None else "waiting for device"):
            self.comm.settle()
            found = step.scalars.read(losses)
        with self.timeline.phase("norm"):
            return reduced, *self._loss_and_norm(found, error or found.error)

    def _loss_and_norm(self, found, error):
        """Return the global loss and gradient norm: exact sums over all ranks, rounded once, the same everywhere.

        error: what this rank met. If any rank met an error, all raise it here. If none did but a sum overflowed, all
        raise that: the overflow is only the consequence of an error that some rank may know.
        """
        losses = ExactSum() if error else ExactSum().add(found.losses)
        problems = TARGETS * self.targets.deviation + ERROR * (error is not None) + (found.overflow is not None)
        total = self.comm.total(np.concatenate([losses.digits, found.squares.digits, [problems]]), "norm")
        missed, problems = divmod(int(total[-1]), TARGETS)
        if problems:
            self.comm.agree(error if problems >= ERROR else found.overflow)
        if missed % MODULUS:
            self.targets.refuse()
        loss, sum_of_squares = total[:-1].reshape(2, -1)
        return ExactSum(loss).value(), norm_of(ExactSum(sum_of_squares))

    def update(self, number, reduced, scale) -> float:
        """Let the optimizer update what this rank keeps; return the learning rate. Local."""
        return update_shards(self.options, number, reduced, scale, self.parameters.plan.microbatches)
