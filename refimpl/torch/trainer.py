"""``Trainer``: a training step by step, for a loop of one's own; ``train`` does the same steps by itself.

    trainer = Trainer(module, loss, optimizer=torch.optim.AdamW(module.parameters()), microbatches=8)
    for batch in trainer.shard(loader):           one epoch; a batch is that of all ranks together
        loss = trainer.loss(batch)                its mean, the same number on every rank
        trainer.backward(loss)                    the dense parameters' .grad has the sum over all ranks
        trainer.step()                            the optimizer's step

    loss: pull, forward and backward pass of this rank's microbatches, sums over all ranks; step: the update
"""

import copy
from contextlib import contextmanager
from functools import cached_property
from typing import Any, NamedTuple

import torch
from threadpoolctl import threadpool_limits

from kernels import to_numpy
from kernels.random import key_of
from kernels.update import OPTIMIZERS
from refimpl.torch.data import TorchData
from refimpl.torch.model import TorchModel
from refimpl.torch.optimizers import groups_of, move_others, optimizers_of, options_of, row_state, said_of
from refimpl.torch.repeatable import repeatable
from refimpl.torch.tensors import to_tensor
from refimpl.training.agreement import agree_on
from refimpl.training.evaluate import evaluate
from refimpl.training.run.whole import hand_back, key_of_array, sha256_of
from refimpl.training.trainer import Trainer
from refimpl.transport import Communicator


class GlobalBatch(NamedTuple):
    """A step's batch, of all ranks together: its data and the number of its step in them."""

    data: Any
    number: int


class TorchTrainer:
    """A training whose loop is the user's. Local to make; all ranks call each method, with the same arguments.

    module, loss, model: as of ``TorchModel``, or a ``TorchModel``.
    optimizer: one of ``torch.optim``, or several; None: that of ``options``, with the bits of ``train``.
    microbatches: into how many pieces a batch is cut, at least as many as ranks.  comm: None: all ranks.
    metrics: of the last step, as ``train`` gives them to ``progress``.
    Raises ValueError, with a remedy, for what cannot be trained so; methods raise CollectiveError on every rank.
    """

    def __init__(self, module, loss=None, *, optimizer=None, microbatches=8, comm=None, options=None, **model):
        self.model = module if isinstance(module, TorchModel) else TorchModel(module, loss, **model)
        self.bound, self.microbatches, self.given = self.model.bound, microbatches, comm  # ``comm`` is made of it
        self.optimizers = optimizers_of(self.model, optimizer)
        self.options = options_of(self.optimizers, options)
        self.base, self.metrics, self.updates = None, {}, 0
        self.data: dict[int, list] = {}  # id of a loader -> [it, its data, how many epochs were begun]
        self.begun, self.later = [], None  # epochs of loaders that are not seen yet; a state to load when it is open
        self.versions, self.working, self.hooks = {}, False, []
        self.zero_grad()

    @cached_property
    def comm(self) -> Communicator:
        """The communicator, made when it is first asked for. Collective then, local afterwards."""
        return Communicator.of(self.given)

    @property
    def is_main_process(self) -> bool:
        """Whether this is rank 0, which writes files and prints. As ``comm``."""
        return self.comm.rank == 0

    def print(self, *words):
        """Print on rank 0. As ``comm``."""
        if self.is_main_process:
            print(*words, flush=True)

    def shard(self, loader):
        """Return an iterator over an epoch of a ``DataLoader``, or of a ``Data``: global batches for ``loss``.
        Collective.

        The loader's batch_size is that of all ranks together. The next call gives the next epoch, in another order.
        """
        if id(loader) not in self.data:
            data = self._data(loader)
            if self.base is None:
                self._open(data)
            self.data[id(loader)] = [loader, data, self.begun.pop(0) if self.begun else 0]
        _, data, epoch = self.data[id(loader)]
        self.data[id(loader)][2] += 1
        return (GlobalBatch(data, epoch * data.steps_per_epoch + n) for n in range(data.steps_per_epoch))

    def loss(self, batch: GlobalBatch) -> torch.Tensor:
        """Return the mean loss over the global batch, float64, of shape (), the same on every rank. Collective.

        The gradients are computed, too: each microbatch needs memory once. ``backward`` hands them out.
        """
        with self._at_work() as base:
            if not isinstance(batch, GlobalBatch):
                raise ValueError(f"the batch is {type(batch).__name__}: give what trainer.shard(loader) yields")
            if self.ready:
                raise ValueError("loss(batch) comes before step() has used the gradients of another batch: to add "
                                 "several, give a larger batch_size and more microbatches, which a rank computes one "
                                 "after another; to drop them, call trainer.zero_grad()")
            if batch.data is not base.data:
                base.take(batch.data)
            base.step = batch.number
            self.metrics = base.train_step()
            self.found = torch.tensor(self.metrics["loss"], dtype=torch.float64)
        return self.found

    def backward(self, loss: torch.Tensor):
        """Put the sums over all ranks into ``.grad`` of the dense parameters; rows' wait for ``step``. Local."""
        with self._at_work():
            if loss is not self.found:
                raise ValueError("backward takes what trainer.loss(batch) has just returned, as it is: put a factor or "
                                 "a penalty into the loss function of the Trainer")
            for parameter, piece in self._dense():
                parameter.grad = to_tensor(piece.gradient)
            self.ready = True

    def clip_grad_norm_(self, max_norm: float) -> torch.Tensor:
        """Scale gradients as ``torch.nn.utils.clip_grad_norm_`` does; return the norm of all, tables too. Local."""
        with self._at_work():
            if not self.ready or not self.optimizers:
                raise ValueError("clip_grad_norm_ comes between backward(loss) and step(), with an optimizer of "
                                 "torch.optim; with one of ours say Options(clip_norm=...)")
            norm = self.metrics["gradient_norm"]
            self.scale = min(1.0, max_norm / (norm + 1e-6))
            for parameter, _ in self._dense():
                parameter.grad.mul_(self.scale)
        return torch.tensor(norm, dtype=torch.float64)

    def step(self):
        """Let the optimizers move what this rank keeps, by the gradients of ``backward``. Collective."""
        with self._at_work() as base:
            if not self.ready:
                raise ValueError("step() has no gradients: call trainer.backward(loss) before it")
            if self.optimizers:
                self._update(base)
            else:
                self.metrics["learning_rate"] = self.update_as_train(self.updates, self.reduced, self.scale)
            self.updates += 1
            self.zero_grad()
            self._show()

    def zero_grad(self):
        """Drop the gradients that no step has used; ``step`` does it, too. Local."""
        self.found, self.reduced, self.scale, self.ready = None, [], 1.0, False
        for parameter in self.bound.own.values():
            parameter.grad = None

    def evaluate(self, loader) -> dict:
        """Return {"loss", "count", ...} over all examples of a ``DataLoader`` or ``Data``. Collective."""
        with self._at_work() as base:
            return evaluate(base, self._data(loader))

    def gather(self) -> torch.nn.Module:
        """Put whole tables into the module, on every rank; return it. Collective.

        For ``torch.save`` or a forward pass. Its dense parameters have the training's values after each step.
        """
        with self._at_work() as base:
            hand_back(base.parameters, self.model)
            while self.hooks:
                self.hooks.pop().remove()
        return self.model.module

    def state_dict(self) -> dict:
        """Return all that ``load_state_dict`` needs, on any number of ranks: for ``torch.save``. Collective."""
        with self._at_work() as base:
            whole = {key_of_array(*array): base.parameters.collect(*array, True, "checkpoint")
                     for array in self._arrays()}
            base.comm.settle()
            return {"values": {key: torch.from_numpy(to_numpy(value).copy()) for key, value in whole.items()},
                    "optimizers": [copy.deepcopy(optimizer.state_dict()) for optimizer in self.optimizers],
                    "updates": self.updates, "epochs": [epochs for *_, epochs in self.data.values()]}

    def load_state_dict(self, state: dict):
        """Go on from a ``state_dict`` of a Trainer, at the next epoch of each loader, in their order. Collective."""
        if self.base is None:
            self.later = state
            return
        with self._at_work() as base:
            keys = {key_of_array(*array): array for array in self._arrays()}
            if not isinstance(state, dict) or state.get("values", {}).keys() != keys.keys():
                raise ValueError("this is no state_dict of a Trainer of this module and these optimizers: load a "
                                 "module's own by module.load_state_dict before the Trainer is made")
            arrays = {key: value.numpy() for key, value in state["values"].items()}
            agree_on(base.comm, {"the state to load": sha256_of(arrays, "")})
            for key, array in keys.items():
                base.parameters.place(*array, arrays[key])
            for optimizer, theirs in zip(self.optimizers, state["optimizers"], strict=True):
                optimizer.load_state_dict(copy.deepcopy(theirs))
            self.updates, self.begun = state["updates"], list(state["epochs"])
            for entry in self.data.values():
                entry[2] = self.begun.pop(0)
            self.zero_grad()
            self._show()

    def _data(self, loader):
        """Return a loader as data. Local."""
        data = loader
        if not hasattr(loader, "microbatch"):
            data = TorchData(loader, self.microbatches, seed=self.options.seed)
        if data.microbatches != self.microbatches:
            raise ValueError(f"the data have {data.microbatches} microbatches: say Trainer(..., "
                             f"microbatches={data.microbatches}), the same for all data")
        return data

    def _open(self, data):
        """Open the training on its first data. Collective."""
        threadpool_limits(1)  # as in ``train``: threads would fight for cores, and may sum in another order
        base = Trainer.open(self.model, data, self.options, self.comm,
                            facts=lambda: {"optimizers": said_of(self.optimizers)})
        base.comm.together(lambda: self._take_over(base), (ValueError,))
        self.base = base
        with self._at_work():
            self._show()
        if self.later:
            self.load_state_dict(self.later)

    def _take_over(self, base):
        """Let the optimizers here move what this rank keeps. Raises ValueError if it keeps only parts. Local."""
        self.device, self.slots = to_tensor(base.xp.zeros(1)).device, {}
        if parts := [name for name in self.model.parts.dense if not base.parameters.exchange_of[name].replicated]:
            raise ValueError(f"architecture {self.options.architecture} keeps {', '.join(parts)} at an owner, and a "
                             "loop of one's own needs dense parameters on each rank: take hybrid or allreduce")
        for name, entry in groups_of(self.model, self.optimizers).items():
            if name in self.model.parts.sparse:
                self.slots[name] = row_state(name, *entry)
        for exchange in base.parameters.exchanges:
            for shard in exchange.shards.values():
                for slot, value in self.slots.get(shard.variable.name, {}).items():
                    shard.state[slot] = base.xp.full_like(shard.values, value)
        self.update_as_train, base.consistency.update = base.consistency.update, self._keep

    def _keep(self, number, reduced, scale):
        """Keep a step's sums, which ``Synchronous.step`` hands to its update. Local."""
        self.reduced, self.scale = reduced, scale

    def _dense(self):
        """Return (the module's parameter, its piece of the sums) of each dense variable. Local."""
        return [(self.bound.own[name], piece) for piece in self.reduced
                if (name := piece.shard.variable.name) in self.model.parts.dense]

    def _update(self, base):
        """Move dense parameters by PyTorch's optimizers, rows and statistics by our kernels. Local."""
        with repeatable(key_of(self.options.seed, "optimizer", self.updates), self.device):
            for optimizer in self.optimizers:
                optimizer.step()
        with torch.no_grad():
            for parameter, piece in self._dense():
                to_tensor(piece.shard.values).copy_(parameter)
        move_others(self.reduced, groups_of(self.model, self.optimizers), self.updates + 1, self.scale)

    def _show(self):
        """Let the module have the values of dense variables, and refuse tables' rows from before. Local."""
        values = {name: value for exchange in self.base.parameters.exchanges
                  for name, value in exchange.dense().items()}
        self.bound.write(values, self.device)
        for v in self.model.variables:
            if v.statistic:
                self.bound.keep(v.name, values[v.name])
        if not self.hooks:
            self.hooks = [layer.register_forward_pre_hook(self._refusal(name))
                          for name, layers in self.model.parts.sparse.items() for layer in layers]

    def _refusal(self, name):
        """Return a hook that refuses a look-up outside of the training. A copy of the module shares it."""
        def refuse(*_):
            if not self.working:
                raise ValueError(f"{name} is looked up between steps, when each rank keeps only some of its rows: call "
                                 "trainer.gather() first, or evaluate with trainer.evaluate(loader)")

        return refuse

    def _arrays(self) -> list:
        """Return (variable, slot) of all that the training keeps beside the optimizers' own state. Local."""
        every = OPTIMIZERS[self.options.optimizer].state
        return [(v.name, slot) for v in self.model.variables
                for slot in (None, *(() if v.statistic else self.slots.get(v.name, every)))]

    @contextmanager
    def _at_work(self):
        """Yield the training, for a method of it; what any rank meets in it ends all."""
        if self.base is None:
            raise ValueError("nothing is open yet: call trainer.shard(loader) first, which begins an epoch")
        with self.base.comm.one_end():
            for name, version in self.versions.items():
                if self.bound.own[name]._version != version:
                    raise ValueError(f"{name} was changed outside of the training, which keeps the values: call "
                                     "trainer.step(), not optimizer.step(); load others by trainer.load_state_dict")
            self.working = True
            try:
                yield self.base
            finally:
                self.working = False
            self.versions = {name: self.bound.own[name]._version for name in self.model.parts.dense}
