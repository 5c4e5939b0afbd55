"""Synchronous training: every step computes with the values of the last step, and all ranks update together.

pull ─▶ forward, backward, microbatch by microbatch ─▶ sums over all ranks ─▶ clip by the global norm ─▶ update
"""

import math
from functools import partial
from typing import Any, Callable, NamedTuple

import numpy as np

from refimpl.gradients import ExactSum
from refimpl.training.checked.model import CheckedModel
from refimpl.training.checked.targets import Said, Targets
from refimpl.training.device import LESS, memory_for
from refimpl.training.mesh.rounds import MeshStep
from refimpl.training.step.early import EarlyStep
from refimpl.training.step.layerwise import norms_of
from refimpl.training.step.overlapped import OverlappedStep
from refimpl.training.step.scalars import Reported, check_losses
from refimpl.training.step.sequential import SequentialStep
from refimpl.training.step.streams import open_streams
from refimpl.training.step.update import clip_scale, update_shards


class Reading(NamedTuple):
    """What a rank has read for a step.

    batches, needs: microbatch -> its batch, and name -> the rows that it needs; None if it has no examples.
    wanted: see ``Parameters.wanted``.  examples: targets of the global batch.  starts: whether the step starts an
    epoch.
    """

    batches: dict
    needs: dict
    wanted: dict
    examples: int
    starts: bool


class Synchronous:
    """The steps of a synchronous training. Collective: all ranks call ``step`` together.

    parameters: the ``Parameters``.
    overlap: how exchanges overlap with computation, the ``way`` of an ``OverlapChoice``.  names: of the model's
    metrics, see ``Reported``.
    between: called after rows are pulled and before the computation, unless a thread pulls; or None.
    before_update: called with the summed gradients before the update of what this rank keeps; or None.
    after_update: called afterwards with the arguments of ``redo``; or None.
    after_computing: called with a step's number and losses, and with the sums of this rank's gradients (``formed``).
    formed: sums of gradients that this rank had formed before a step was undone (``survival.undo``); or None.
    """

    between: Callable[[], None] | None = None
    before_update: Callable[[list], None] | None = None
    after_update: Callable[[int, list, float, dict], None] | None = None
    after_computing: Callable[[int, list, list], None] | None = None
    formed: Any = None

    def __init__(self, model: CheckedModel, options, parameters, device, timeline, overlap: str, names):
        self.model, self.options, self.parameters, self.device = model, options, parameters, device
        self.loss_scale = model.loss_scale if options.precision else None
        self.comm, self.timeline, self.targets, self.mesh = parameters.comm, timeline, Targets(parameters.comm), None
        if parameters.plan.on_mesh.model > 1:
            self.mesh = MeshStep(model, parameters, options.seed, device.xp, overlap != "no")
            overlap = "no"  # its own
            if names:
                raise ValueError("the model reports metrics, and on a mesh no rank has a whole microbatch: leave one "
                                 "of the two out")
        self.overlap, self.norms, self.reported = overlap, {}, Reported(names)
        self.make = {"no": SequentialStep, "early": EarlyStep,
                     "thread": partial(OverlappedStep, streams=open_streams(device.xp))}[overlap]

    def step(self, number: int, reading: Reading, meanwhile: Callable[[], None]) -> dict:
        """Do step ``number`` (from 0); return its loss, gradient norm and learning rate, the same on every rank.

        In mixed precision the scale of the loss is returned, too. If a gradient overflows, the step is left out,
        without norm.
        meanwhile: called while a GPU computes.
        """
        if self.model.first:
            self.targets.learn(number, reading.batches, reading.examples)
        for exchange in self.parameters.exchanges:
            exchange.step = number
        exchanges = self.make(self.parameters, reading.needs, reading.wanted, self.timeline)
        exchanges.keeps = self.after_computing is not None
        try:
            exchanges.begin()
            if self.between is not None and self.overlap != "thread":
                self.between()
            losses, error = self._compute(number, exchanges, reading)
            try:
                reduced, loss, norm = self._sum_up(number, exchanges, losses, error, meanwhile)
            except MemoryError as problem:  # if there was an error before, this rank has no memory left to tell it
                raise error or problem
            with self.timeline.phase("update"):
                rate = 0.0 if norm is None else self.update(number, reduced, clip_scale(norm, self.options.clip_norm))
        finally:
            exchanges.end()
            self.model.forget()
        record = {"loss": loss, "gradient_norm": norm, "learning_rate": rate}
        if self.reported.names:
            record["metrics"] = self.reported.total(self.comm)
        if self.loss_scale is not None:
            record |= {"loss_scale": self.loss_scale.scale}
            self.loss_scale.learn(norm is None)
        return {name: value for name, value in record.items() if value is not None}

    def _compute(self, number, exchanges, reading):
        """Run the model on this rank's microbatches and add up gradients; return (losses, error or None)."""
        with self.timeline.phase("compute"):
            try:
                self.targets.count(number, reading.batches, reading.examples, reading.starts)
                losses = (self._gradients(number, exchanges, reading.batches) if self.mesh is None
                          else self.mesh.compute(number, exchanges.dense, reading.batches))
                self.model.end_step()
                check_losses(losses)
                return losses, None
            except BaseException as problem:  # a model may also call sys.exit
                if self.mesh is not None:
                    raise  # its group waits in the middle of a round: only an abort message reaches it
                return [], problem

    def _gradients(self, number, exchanges, batches):
        """Add up the gradients of this rank's microbatches; return (microbatch, loss) of each."""
        losses = []
        for v, batch in batches.items():
            if self.formed is not None and self.formed.has(number, v):
                losses += self.formed.use(v, batch, exchanges)
                continue
            gradients = None
            if batch is not None:
                if exchanges.ready:
                    batch.ready = partial(exchanges.ready, v)
                with memory_for(f"microbatch {v}", LESS):
                    loss, gradients = self.model.loss_and_gradients(exchanges.dense, exchanges.rows(v), batch)
                    self.reported.take(batch)
                self.comm.stay_one()
                losses.append((v, loss))
            exchanges.add(v, gradients)
        return losses

    def _sum_up(self, number, exchanges, losses, error, meanwhile):
        """Return (this rank's parts of the summed gradients, the global loss, the norm), and free the communicator."""
        reduced, scalars = [], self.model.scalars
        if exchanges.keeps and error is None:
            self.after_computing(number, losses, exchanges.formed())
        exchanges.complete(error)
        for pieces in exchanges.sums():
            reduced += pieces
            with self.timeline.phase("norm"):
                scalars.add(pieces)
        if self.device.index is not None:
            with self.timeline.phase("data"):
                meanwhile()
        with self.timeline.phase("norm" if self.device.index is None else "waiting for device"):
            self.comm.settle()
            found = scalars.read(losses)
        with self.timeline.phase("norm"):
            return reduced, *self._loss_and_norm(number, found, error or found.error)

    def _loss_and_norm(self, number, found, error):
        """Return the global loss and gradient norm: exact sums over all ranks, rounded once.

        error: of this rank. If any rank has an error, all raise it here. If there is none but a sum overflowed, all
        raise the overflow; in mixed precision the norm is then None. (An overflow may only follow from another rank's
        error.)
        """
        loss, squares = ExactSum() if error else ExactSum().add(found.losses), found.squares
        said = self.targets.said._replace(errors=error is not None, overflows=found.overflow is not None)
        total = self.comm.total(np.concatenate([loss.digits, squares.digits, said]), "norm")
        loss, squares, all_say = np.split(total, [len(loss.digits), 2 * len(loss.digits)])
        all_say = Said(*all_say.tolist())
        skips = bool(all_say.overflows) and self.loss_scale is not None
        if all_say.errors or all_say.overflows and not skips:
            self.comm.agree(error if all_say.errors else found.overflow)
        self.targets.check(number, all_say)
        return ExactSum(loss).value(), None if skips else math.sqrt(ExactSum(squares).value()) * self.unscale

    @property
    def unscale(self) -> float:
        """Return 1 / the scale of the loss, by which all gradients are multiplied."""
        return 1.0 if self.loss_scale is None else 1 / self.loss_scale.scale

    def update(self, number, reduced, scale) -> float:
        """Let the optimizer update what this rank keeps; return the learning rate. Collective.

        A training with the user's own loop replaces this method by one that keeps the sums for later.
        """
        if self.before_update is not None:
            self.before_update(reduced)
        rate = update_shards(self.options, number, reduced, scale, self.parameters.plan.microbatches, self._norms,
                             self.parameters.variables, self.unscale)
        if self.after_update is not None:
            self.after_update(number, reduced, scale, self.norms)
        return rate

    def _norms(self, names, steps):
        self.norms = norms_of(self.comm, names, steps)
        return self.norms

    def redo(self, number, reduced, scale, norms):
        """Repeat an update on copies of another rank's shards, with the norms that it had. Local."""
        update_shards(self.options, number, reduced, scale, self.parameters.plan.microbatches, lambda *_: norms,
                      self.parameters.variables)
