"""``OwnLoop``: training step by step in the user's own loop. The ``Trainer`` of PyTorch and of JAX are built on it.

shard    ─▶ an epoch's global batches
_compute ─▶ pull, forward and backward pass of this rank's microbatches, sums over all ranks, which are kept
_move    ─▶ the update: by the framework's own optimizer, or as in ``train``
"""

from contextlib import contextmanager
from functools import cached_property
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
from threadpoolctl import threadpool_limits

from kernels import to_numpy
from kernels.update import update_rows
from refimpl.training.agreement import agree_on
from refimpl.training.evaluate import evaluate
from refimpl.training.options import Options
from refimpl.training.run.whole import gather_named, kinds_of, sha256_of
from refimpl.training.step.update import move_statistics
from refimpl.training.trainer import Trainer
from refimpl.transport import Communicator

OF_THE_OPTIMIZER = ("optimizer", "optimizer_options", "learning_rate", "rate", "warmup", "rate_steps", "scale_rate",
                    "weight_decay")
WITHOUT_OWNERS = {"consistency": "synchronous", "shard_optimizer": False, "search_partitions": False}


class GlobalBatch(NamedTuple):
    """The batch of a step, of all ranks together: its data, and the number of its step in them."""

    data: Any
    number: int


class OwnLoop:
    """A training with the user's own loop. The constructor is local; all ranks call each method with equal arguments.

    comm: None: all ranks.  optimizers: of the framework; empty: the one in ``options`` updates everything, with the
    bits of ``train``.  slots: table -> name -> initial value of an array that its optimizer keeps.
    metrics: of the last step, as ``train`` passes them to ``progress``.
    Raises ValueError, with a remedy, for what cannot be trained; methods raise CollectiveError on every rank.
    """

    first = "loss(batch)"
    """The name of the call that computes gradients, for messages."""

    def __init__(self, model, optimizers: list, options: Options, comm, slots: dict):
        self.model, self.optimizers, self.options, self.given, self.slots = model, optimizers, options, comm, slots
        self.dense = [v.name for v in model.variables if not (v.sparse or v.statistic)]
        self.base, self.metrics, self.updates = None, {}, 0
        self.data: dict[int, list] = {}  # id of a loader -> [it, its data, how many epochs were begun]
        self.begun, self.later = [], None  # epochs of loaders that are not seen yet; a state to load when it is open
        self.zero_grad()

    @cached_property
    def comm(self) -> Communicator:
        """The communicator. It is made at its first use, which is collective."""
        return Communicator.of(self.given)

    @property
    def is_main_process(self) -> bool:
        """Whether this is rank 0, which writes files and prints. The first use is collective."""
        return self.comm.rank == 0

    def print(self, *words):
        """Print on rank 0. The first use is collective."""
        if self.is_main_process:
            print(*words, flush=True)

    def shard(self, loader):
        """Return an iterator over the global batches of an epoch. Collective.

        loader: a ``Data``, such as ``Examples``. With PyTorch it may also be a ``DataLoader``. The next call gives the
        next epoch, in another order.
        """
        if id(loader) not in self.data:
            data = self._data(loader)
            if self.base is None:
                self._open(data)
            self.data[id(loader)] = [loader, data, self.begun.pop(0) if self.begun else 0]
        _, data, epoch = self.data[id(loader)]
        self.data[id(loader)][2] += 1
        return (GlobalBatch(data, epoch * data.steps_per_epoch + n) for n in range(data.steps_per_epoch))

    def zero_grad(self):
        """Forget the gradients that no step has used; ``step`` also does this. Local."""
        self.found, self.reduced, self.scale, self.ready = None, [], 1.0, False

    def evaluate(self, loader) -> dict:
        """Return {"loss", "count", ...} over all examples of a loader. Collective."""
        with self._at_work() as base:
            self._meet("evaluate(data)", alike=True)
            data = self._data(loader)
            agree_on(base.comm, {"data": data.fingerprint})
            return evaluate(base, data)

    def state_dict(self) -> dict:
        """Return everything that ``load_state_dict`` needs, on any number of ranks. Collective."""
        with self._at_work() as base:
            self._meet("state_dict()", alike=True)
            whole = {key: base.parameters.collect(v.name, slot, True, "checkpoint")
                     for key, (v, slot) in kinds_of(base.parameters).items()}
            base.comm.settle()
            whole |= gather_named(base.comm, base.residuals, everywhere=True) | base.common()
            return {"values": {key: self._kept(to_numpy(value).copy()) for key, value in whole.items()},
                    "optimizers": self._states(), "updates": self.updates,
                    "epochs": [epochs for *_, epochs in self.data.values()]}

    def load_state_dict(self, state: dict):
        """Load a ``state_dict``. Loaders go on at their next epochs: ``shard`` them in the old order. Collective."""
        if self.base is None:
            self.later = state
            return
        with self._at_work() as base:
            self._meet("load_state_dict(state)")
            kinds = kinds_of(base.parameters)
            arrays = self._checked(state, kinds)
            agree_on(base.comm, {"the state to load": sha256_of(arrays, ""), "its updates": int(state["updates"]),
                                 "its epochs": list(map(int, state["epochs"]))})
            for key, (v, slot) in kinds.items():
                base.parameters.place(v.name, slot, arrays[key])
            base.restore_left_out(arrays)
            self._load_states(state["optimizers"])
            self.updates, self.begun = int(state["updates"]), list(map(int, state["epochs"]))
            for entry in self.data.values():
                entry[2] = self.begun.pop(0) if self.begun else 0
            self.zero_grad()
            self._show()

    def _checked(self, state, kinds) -> dict:
        """Return the arrays of a state, key -> array. Raises ValueError for the state of another training. Local."""
        parts, found = {"values", "optimizers", "updates", "epochs"}, ""
        shapes = {key: tuple(v.shape) for key, (v, _) in kinds.items()}
        shapes |= {key: tuple(shape) for key, (_, shape) in self.base.left_out().items()}
        if not isinstance(state, dict) or not parts <= state.keys() or state["values"].keys() != shapes.keys():
            found = "its names differ"
        else:
            arrays = {key: np.asarray(array) for key, array in state["values"].items()}
            for key, array in arrays.items():
                if array.shape != shapes[key]:
                    found = f"{key} has shape {array.shape}, and here {shapes[key]}"
        if found:
            raise ValueError(f"this is no state_dict of a Trainer of this model and these optimizers ({found}): give a "
                             "model's own values to the model before the Trainer is made")
        return arrays

    def _meet(self, call: str, *place: int, alike=False, error=None):
        """Raise CollectiveError on every rank unless all make the same call, and none brings an error. Collective.

        place: the number of a batch and of its loader.
        alike: compare the dense parameters, too, because optimizers on each rank may have made them differ.
        """
        comm, mine = self.base.comm, [crc32(call.encode()), self.updates, *place, *[0] * (2 - len(place))]
        if not comm.agree(error, mine, f"the call of {call} after step {self.updates}"):
            agree_on(comm, {"the next call of the loop": call, "the number of steps before it": self.updates,
                            "the number of the batch, and of its loader": place})
        if alike and comm.size > 1:
            values = {name: to_numpy(value) for name, value in self._values().items()}
            agree_on(comm, {"the hash of the dense parameters": sha256_of(values, "")})

    def _kept(self, array):
        """Return a NumPy array in the form of ``state_dict``. Local."""
        return array

    def _compute(self, batch: GlobalBatch):
        """Compute a batch's loss, in ``metrics``, and the sums of its gradients, in ``reduced``. Collective."""
        if not isinstance(batch, GlobalBatch):
            raise ValueError(f"the batch is {type(batch).__name__}: give what trainer.shard(loader) yields")
        if self.ready:
            raise ValueError(f"{self.first} comes before step() has used the gradients of another batch: to add "
                             "several, give a larger batch and more microbatches, which a rank computes one after "
                             "another; to drop them, call trainer.zero_grad()")
        loader = [data is batch.data for _, data, _ in self.data.values()]
        place = batch.number, loader.index(True) if True in loader else -1
        if batch.data is not self.base.data:
            self._meet(self.first, *place)
            self.base.take(batch.data)
        self.base.step = batch.number
        self.metrics = self.base.train_step(lambda error: self._meet(self.first, *place, error=error))

    def _move(self, update):
        """Let ``update()`` change what this rank keeps; without the framework's optimizers, use ours. Collective."""
        if self.optimizers:
            update()
        else:
            self.metrics["learning_rate"] = self.update_as_train(self.updates, self.reduced, self.scale)
        self.updates += 1
        self.zero_grad()
        self._show()

    def _pieces(self) -> dict:
        """Return name -> its piece of the sums, for each dense variable. Local."""
        found = {piece.shard.variable.name: piece for piece in self.reduced}
        return {name: found[name] for name in self.dense if name in found}

    def _move_others(self, by_row):
        """Update rows of tables and statistics. by_row: table -> (kernel, rate, its options) of this step. Local."""
        for piece in self.reduced:
            shard = piece.shard
            if shard.variable.name in by_row:
                kernel, rate, options = by_row[shard.variable.name]
                update_rows(kernel, shard.values, shard.state, piece.ids, piece.gradient, rate, step=self.updates + 1,
                            scale=self.scale, **options)
        move_statistics(self.reduced, None)

    def _open(self, data):
        """Open the training on its first data. Collective."""
        threadpool_limits(1)  # as in ``train``: threads would fight for cores, and may sum in another order
        base = Trainer.open(self.model, data, self.options, self.comm, facts=lambda: {"optimizers": self._said()})
        base.comm.together(lambda: self._take_over(base), (ValueError,))
        self.base = base
        with self._at_work():
            self._show()
        if self.later is not None:
            self.load_state_dict(self.later)

    def _take_over(self, base):
        """Let the framework's optimizers update what this rank keeps. Raises ValueError if it keeps parts. Local."""
        if parts := [name for name in self.dense if not base.parameters.exchange_of[name].replicated]:
            raise ValueError(f"architecture {self.options.architecture} keeps {', '.join(parts)} at an owner, and a "
                             "loop of one's own needs dense parameters on each rank: take hybrid or allreduce")
        base.parameters.slots |= {name: tuple(slots) for name, slots in self.slots.items()}
        for exchange in base.parameters.exchanges:
            for shard in exchange.shards.values():
                for slot, value in self.slots.get(shard.variable.name, {}).items():
                    shard.state[slot] = base.xp.full_like(shard.values, value)
        self.update_as_train, base.consistency.update = base.consistency.update, self._keep

    def _keep(self, number, reduced, scale):
        """Keep the sums that ``Synchronous.step`` passes to its update. Local."""
        self.reduced, self.scale = reduced, scale

    def _values(self) -> dict:
        """Return name -> value of each dense variable and statistic. Local."""
        return {name: value for exchange in self.base.parameters.exchanges
                for name, value in exchange.dense().items()}

    @contextmanager
    def _at_work(self):
        """Yield the training within a method; an error on any rank ends all ranks."""
        if self.base is None:
            raise ValueError("nothing is open yet: call trainer.shard(loader) first, which begins an epoch")
        with self.base.comm.one_end():
            yield self.base


def options_of(options: Options | None, kind: str | None, *more: str, instead="") -> Options:
    """Return the options of a user's own loop. Local. Raises ValueError for options that contradict an optimizer.

    kind: the name of the framework's optimizer, or None.  more: further fields that the optimizer sets itself.
    instead: where to set them, for the message.
    """
    options = options or Options()
    for name, default in WITHOUT_OWNERS.items():
        if getattr(options, name) != default:
            raise ValueError(f"{name} is {getattr(options, name)!r}: a loop of one's own needs {name}={default!r}; "
                             "train(...) can do it")
    if kind is None:
        return options
    start = Options(steps=options.steps)
    if said := [name for name in (*OF_THE_OPTIMIZER, *more) if getattr(options, name) != getattr(start, name)]:
        raise ValueError(f"options say {', '.join(said)}, and so does {kind}: say it in the optimizer{instead} alone")
    return Options(**{**options.to_json(), "optimizer": "sgd"})  # keeps no state beside the framework's
