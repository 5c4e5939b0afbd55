"""``Trainer``: training step by step in your own loop. ``train`` does the same steps by itself.

    trainer = Trainer(module, loss, optimizer=torch.optim.AdamW(module.parameters()), microbatches=8)
    for batch in trainer.shard(loader):           one epoch; a batch of all ranks together
        loss = trainer.loss(batch)                its mean, the same number on every rank
        trainer.backward(loss)                    puts its gradient into the dense parameters' .grad
        trainer.step()                            the optimizer's step

loss: pull, forward and backward pass of this rank's microbatches, sums over all ranks; step: the update
"""

import copy
from contextlib import ExitStack, contextmanager

import torch

from kernels import to_numpy
from kernels.random import key_of
from refimpl.torch.data import TorchData
from refimpl.torch.model import TorchModel
from refimpl.torch.optimizers import groups_of, optimizers_of, row_state, row_step, said_of
from refimpl.torch.repeatable import repeatable
from refimpl.torch.tables import BETWEEN_STEPS, away
from refimpl.torch.tensors import to_tensor
from refimpl.training.own_loop import GlobalBatch, OwnLoop, options_of
from refimpl.training.run.whole import hand_back


class TorchTrainer(OwnLoop):
    """A training with your own loop. All ranks make the same calls in the same order; the constructor is local.

    module, loss, model: either a ``TorchModel``, or a module, a loss and keyword arguments of ``TorchModel``.
    optimizer: a ``torch.optim.Optimizer``, or several. None: that of ``options``; then the bits are those of ``train``.
    microbatches: into how many pieces a batch is cut. A rank without a piece computes nothing.
    comm: the communicator of mpi4py with the ranks that train; None: all ranks.
    metrics: an attribute with the numbers of the last step, as ``train`` writes them into metrics.jsonl.
    """

    def __init__(self, module, loss=None, *, optimizer=None, microbatches=8, comm=None, options=None, **model):
        model = module if isinstance(module, TorchModel) else TorchModel(module, loss, **model)
        optimizers, self.bound, self.microbatches = optimizers_of(model, optimizer), model.bound, microbatches
        kind = type(optimizers[0]).__name__ if optimizers else None
        self.versions, self.apart, self.away = {}, False, ExitStack()
        options = options_of(options, kind, "clip_norm", instead=", a torch.optim.lr_scheduler or "
                                                                 "trainer.clip_grad_norm_")
        super().__init__(model, optimizers, options, comm, {
            name: row_state(name, *entry) for name, entry in groups_of(model, optimizers).items()
            if name in model.parts.sparse})

    def loss(self, batch: GlobalBatch) -> torch.Tensor:
        """Return the mean loss over the global batch, float64, of shape (), the same on every rank. Collective.

        This also computes the gradients, microbatch by microbatch; ``backward`` puts them into ``.grad``.
        """
        with self._at_work():
            self._compute(batch)
            self.found = torch.tensor(self.metrics["loss"], dtype=torch.float64)
        return self.found

    def backward(self, loss: torch.Tensor):
        """Put the gradient of the mean loss into ``.grad`` of dense parameters; tables get none. Local."""
        with self._at_work():
            if loss is not self.found:
                raise ValueError("backward takes what trainer.loss(batch) has just returned, as it is: put a factor or "
                                 "a penalty into the loss function of the Trainer")
            for name, piece in self._pieces().items():
                self.bound.own[name].grad = to_tensor(piece.gradient).clone()  # all ranks may share the sum's memory
            self.ready = True

    def clip_grad_norm_(self, max_norm: float) -> torch.Tensor:
        """Scale gradients as ``torch.nn.utils.clip_grad_norm_`` does; return their norm, with tables. Local."""
        with self._at_work():
            if not self.ready or not self.optimizers:
                raise ValueError("clip_grad_norm_ comes between backward(loss) and step(), with an optimizer of "
                                 "torch.optim; with one of ours say Options(clip_norm=...)")
            norm = self.metrics["gradient_norm"] * self.scale  # it may have been called before
            factor = min(1.0, max_norm / (norm + 1e-6))
            self.scale *= factor
            for name in self._pieces():
                self.bound.own[name].grad.mul_(factor)
        return torch.tensor(norm, dtype=torch.float64)

    def step(self):
        """Let the optimizers update all parameters, with the gradients of ``backward``. Collective."""
        with self._at_work():
            if not self.ready:
                raise ValueError("step() has no gradients: call trainer.backward(loss) before it")
            self._move(self._update)

    def zero_grad(self):
        """Forget the gradients that no step has used; ``step`` also does this. Local."""
        super().zero_grad()
        for name in self.dense:
            self.bound.own[name].grad = None

    def evaluate(self, loader) -> dict:
        """Return {"loss", "count", ...} over all examples of a loader; keep the gradients for ``step``. Collective."""
        kept = {name: self.bound.own[name].grad for name in self.dense}
        try:
            return super().evaluate(loader)
        finally:
            for name, gradient in kept.items():
                self.bound.own[name].grad = gradient

    def gather(self) -> torch.nn.Module:
        """Put whole tables into the module, on every rank; return it. Collective.

        Call it before ``torch.save`` or a forward pass of your own. Dense parameters are up to date without it.
        """
        with self._at_work() as base:
            self._meet("gather()", alike=True)
            hand_back(base.parameters, self.model)
            self.apart = False
        return self.model.module

    def _data(self, loader):
        """Return a loader as data. Local."""
        data = loader
        if not hasattr(loader, "microbatch"):
            data = TorchData(loader, self.microbatches, seed=self.options.seed)
        if data.microbatches != self.microbatches:
            raise ValueError(f"the data have {data.microbatches} microbatches: say Trainer(..., "
                             f"microbatches={data.microbatches}), the same for all data")
        return data

    def _update(self):
        """Update dense parameters by PyTorch's optimizers, rows and statistics by our kernels. Local."""
        with repeatable(key_of(self.options.seed, "optimizer", self.updates), self.device):
            for optimizer in self.optimizers:
                optimizer.step()
        with torch.no_grad():
            for name, piece in self._pieces().items():
                to_tensor(piece.shard.values).copy_(self.bound.own[name])
        self._move_others({name: row_step(name, *entry, self.updates + 1)
                           for name, entry in groups_of(self.model, self.optimizers).items() if name in self.slots})

    def _take_over(self, base):
        self.device = to_tensor(base.xp.zeros(1)).device
        super()._take_over(base)

    def _show(self):
        """Give the module the values of dense variables; its tables have old rows. Local."""
        values = self._values()
        self.bound.write(values, self.device)
        for v in self.model.variables:
            if v.statistic:
                self.bound.keep(v.name, values[v.name])
        self.apart = True

    def _said(self):
        return said_of(self.optimizers)

    def _kept(self, array):
        return torch.from_numpy(array)

    def _states(self):
        return [copy.deepcopy(optimizer.state_dict()) for optimizer in self.optimizers]

    def _load_states(self, states):
        def form(states):
            return [[group.keys() for group in state["param_groups"]] for state in states]

        if form(states) != form(self._states()):
            raise ValueError("the state belongs to other optimizers of torch.optim: make the Trainer with those with "
                             "which the state was saved")
        for optimizer, theirs in zip(self.optimizers, states, strict=True):
            optimizer.load_state_dict(copy.deepcopy(theirs))

    @contextmanager
    def _at_work(self):
        with super()._at_work() as base:
            self.away.close()
            if changed := self._changed():
                raise ValueError(f"{changed} was changed outside of the training, which keeps the values: call "
                                 "trainer.step(), not optimizer.step(); load others by trainer.load_state_dict; clamp "
                                 "them in the step of an optimizer of your own")
            try:
                yield base
            finally:
                self.versions = self._versions()
                tables = {name: self.bound.own[name] for name in self.model.parts.sparse if self.apart}
                grad = [] if self.ready else [torch.Tensor.grad.__get__]  # optimizer.zero_grad() asks for it
                self.away.enter_context(away(tables, self.device, BETWEEN_STEPS, *grad))

    def _versions(self) -> dict:
        """Return name -> PyTorch's count of writes to it, of the module's parameters and statistics. Local."""
        names = [*self.bound.own, *(v.name for v in self.model.variables if v.statistic)]
        return {name: tensor._version for name, tensor in self.bound.tensors(names).items()}

    def _changed(self) -> str:
        """Return the name of a value that was changed between steps, or "". Local.

        PyTorch does not count writes to ``.data``: values are compared after steps 1, 2, 4, 8, ...
        """
        changed = [name for name, version in self._versions().items() if self.versions.get(name, version) != version]
        if self.versions and not changed and self.updates & (self.updates - 1) == 0:
            now = self.bound.values(values := self._values())
            changed = [name for name in values if to_numpy(values[name]).tobytes() != now[name].tobytes()]
        return "".join(changed[:1])
