"""``TorchModel``: an unmodified module for one device, as a model that trains on any number of ranks.

    named_parameters() ─▶ variables           those that only Embedding and EmbeddingBag layers hold: sparse
    rows_needed        ─▶ look-ups, declared or recorded
    loss_and_gradients ─▶ the module runs on the step's values; dense gradients are sent as autograd computes them
    state_dict, load   ─▶ the learned parameters, for load_state_dict
"""

from pathlib import Path

import torch
from torch.nn.modules.loss import _Loss

from kernels import array_module
from models.frameworks.declared import declared
from models.frameworks.mean import WORDS, is_mean
from models.frameworks.trees import examples_in
from refimpl.torch.alone import refuse_other
from refimpl.torch.bound import Bound, Unchanged, evaluating, own_statistics, statistics_of
from refimpl.torch.leaving import leaving
from refimpl.torch.parts import parts_of, refuse_shared
from refimpl.torch.record import Recorder
from refimpl.torch.repeatable import repeatable
from refimpl.torch.tables import PulledRows
from refimpl.torch.tensors import on_device, to_array, to_tensor
from refimpl.torch.variables import variables_of
from refimpl.training.run.checkpoint import read_parameters
from refimpl.training.run.whole import key_of_array, sha256_of


MOST_ROWS = 1 << 22
"""A table with more rows has no list of their places: 32 MiB are enough."""


class TorchModel:
    """A ``torch.nn.Module`` and its loss, as a model for ``train`` or ``Trainer``. Local.

    A *table* is the weight of an ``nn.Embedding`` or ``nn.EmbeddingBag`` layer that nothing else uses. During a step a
    rank has only some of its rows, and only these layers can look them up; every other use is refused. The module's
    other parameters have the values of the step. In a hook ``.grad`` is the gradient of one microbatch.

    loss: loss(module, batch) -> 0-d tensor, the *sum* of the losses of a ``Microbatch``'s examples.
    rows: rows(batch) -> {name of a table: row numbers that the loss looks up}; None: look-ups are recorded.
    dense: names of tables of which each rank shall have all rows.
    buffers: names of buffers that the forward pass changes. After a step each becomes the mean of its values from all
    microbatches, weighted by their numbers of examples.
    groups: parameter groups as PyTorch's optimizers take them, with ``lr`` and ``weight_decay``.
    metrics: names of the numbers that the loss puts into ``batch.metrics``.
    initial: name -> ``Uniform``, ``Constant``, ``Normal``, ...: initial values. By default they are the module's
    values. A table on the meta device, which may be larger than a rank's memory, starts with normal random numbers, as
    ``nn.Embedding`` does.
    unused: "zero": a parameter that the loss does not use has the gradient 0; "refuse": it is an error.
    evaluate: evaluate(module, batch) -> {"loss": sum, "count": n[, "correct": k]}; None: the loss, in evaluation mode.
    Each part trains in the mode (train, eval) that it had when the model was made.
    Raises ValueError, which names the part of a module that cannot be trained here, and the remedy (docs/torch.md).
    """

    def __init__(self, module, loss, *, rows=None, dense=(), initial=None, unused="refuse", evaluate=None,
                 groups=(), metrics=(), buffers=()):
        if not callable(loss) or isinstance(loss, torch.nn.Module):
            raise ValueError(f"the loss is {loss!r:.80}: give a function loss(module, batch) -> sum of the losses; "
                             "what is trained in it must be a part of the module")
        if unused not in ("refuse", "zero"):
            raise ValueError(f"unused={unused!r}: choose 'refuse' or 'zero'")
        self.module, self.parts = module, parts_of(module, dense, buffers)
        refuse_shared(module, self.parts)
        self.bound = Bound(module, loss, self.parts)
        self.rows, self.unused, self.evaluation, self.recorder = rows, unused, evaluate, Recorder(self.bound)
        self.initial, self.groups, self.metrics = dict(initial or {}), list(groups), list(metrics)
        self.variables = variables_of(self.parts, self.initial, self.groups)
        self.calls, self.is_sum = 0, False  # computed microbatches; whether the loss is known to be a sum
        self.lies_at: dict[str, torch.Tensor] = {}  # table -> of each row, its place in the rows pulled last

    def rows_needed(self, batch):
        """Return the rows that the batch looks up: table -> (k,) int64 sorted unique row numbers. Local."""
        tables = self.parts.sparse
        if not tables:
            return {}
        needed = declared(self.rows, tables, batch) if self.rows else self.recorder.rows_needed(batch)
        batch.looked_up = needed  # the loss is computed with these rows
        return needed

    def loss_and_gradients(self, dense, rows, batch):
        """Return (loss, gradients) of one microbatch (see ``models.Model``). Local."""
        xp, device = _home(dense, rows)
        needed = getattr(batch, "looked_up", None) or self.rows_needed(batch)
        values = self.bound.write(dense, device)
        tables = {name: self._pulled(name, needed, rows, device) for name in self.parts.sparse}
        given, gradients = on_device(batch, device), {}
        self.bound.moving = {name: to_tensor(dense[name]) for name in self.parts.moving}
        statistics, constants = self.bound.statistics(device), self.bound.constants(device)
        unchanged = Unchanged(self.parts, values, constants, given)
        self.calls += 1
        looking = self.calls & (self.calls - 1) == 0  # at the 1st, 2nd, 4th, 8th, ...: slow checks
        originals = {name: tensor.clone() for name, tensor in constants.items()} if looking else {}
        with (repeatable(batch.key, device), own_statistics(self.parts.norms),
              self.bound.holding(device, constants | statistics, tables)):  # also in the backward pass: see checkpoint
            total = self.bound.loss(self.module, given)
            unchanged.check_kept()
            unchanged.check()
            loss = _checked(total) / batch.normaliser
            gradients |= self._shares(statistics, dense, examples_in(batch) / batch.normaliser, xp)
            with leaving(values, gradients, batch, xp, looking):
                found = self._gradients(loss, values, tables)
        unchanged.check()
        if looking:
            unchanged.check_copies(originals | {name: to_tensor(dense[name]) for name in values})
            self._refuse_unrepeatable(total, needed, rows, batch, device)
        if not self.is_sum:
            self._refuse_mean(dense, needed, rows, batch, device)
        for name, gradient in found.items():
            if name in tables:
                gradients[name] = tables[name].gradient(gradient, lambda rows: to_array(rows, xp))
            elif name not in gradients:
                gradients[name] = to_array(gradient, xp)
        if self.calls == 1:
            refuse_other(self.bound, total, gradients, dense, needed, rows, batch)
        _carry_on(batch, given, xp)
        return float(loss.detach()) if xp.__name__ == "numpy" else to_array(loss, xp), gradients

    def evaluate(self, dense, tables, batch):
        """Return sums over the batch: {"loss": sum, "count": n[, "correct": k]}. There is no dropout. Local.

        Without ``evaluate``, n is the number of weights that are not 0, or the length of axis 0.
        """
        _, device = _home(dense, tables)
        given, values = on_device(batch, device), self.bound.constants(device) | self._running(dense)
        self.bound.write(dense, device)
        with repeatable(batch.key, device), evaluating(self.module), torch.no_grad(), self.bound.whole(tables) as whole:
            found = self.bound.call(given, device, values | whole, {}, self.evaluation)
        _carry_on(batch, given, array_module(*dense.values(), *tables.values()))
        return found if self.evaluation else {"loss": float(found), "count": examples_in(batch)}

    def state_dict(self, parameters) -> dict:
        """Return a state dict for ``load_state_dict`` of the module. Local.

        parameters: variable -> whole NumPy array; entries that are not variables come from the module.
        """
        names = {id(self.parts.parameter(name)): name for name in self.parts.holders}
        own = self.module.state_dict(keep_vars=True)
        found = {key: names.get(id(tensor), key) for key, tensor in own.items()}
        return {key: torch.from_numpy(parameters[name].copy()) if name in parameters else own[key].detach()
                for key, name in found.items()}

    def load(self, run):
        """Load a run's newest checkpoint into the module, also into tables on the meta device. Local.

        run: its directory, or its ``Result``. A result without files must be that of the module's last training, after
        which the module already has the learned parameters.
        Raises ValueError or OSError if no checkpoint can be read, or if it is of another module.
        """
        directory = getattr(run, "run_directory", run)
        if directory is None:
            self._check_has(run)
            return
        values = read_parameters(Path(directory))
        shapes = {v.name: v.shape for v in self.variables}
        if (found := {name: value.shape for name, value in values.items()}) != shapes:
            told = [", ".join(f"{name} {shape}" for name, shape in sorted(some.items() - other.items()))
                    for some, other in ((found, shapes), (shapes, found))]
            raise ValueError(f"{directory} is a run of another module: it has {told[0] or 'nothing more'}, where this "
                             f"module has {told[1] or 'nothing'}")
        for name, value in values.items():
            self.bound.keep(name, value)
        self.variables = variables_of(self.parts, self.initial, self.groups)  # tables are no longer on the meta device

    @property
    def names_to_keep(self) -> list[str]:
        """Variables that the module gets after a training: all but tables on the meta device."""
        return [v.name for v in self.variables if not (v.sparse and self.bound.own[v.name].is_meta)]

    def keep_learned(self, name, value):
        """Store a learned value in the module. Local. ``train`` calls it at the end."""
        self.bound.keep(name, value)

    def _check_has(self, result):
        """Raise ValueError unless the module has the final values of a training without files."""
        missing = [v.name for v in self.variables if v.name not in self.names_to_keep]
        if missing:
            raise ValueError(f"the training wrote no files, and {', '.join(missing)} is on the meta device: no rank "
                             'has it whole. Train with output="runs/mine", then load("runs/mine")')
        values = {key_of_array(name, None): value for name, value in self.bound.values(self.names_to_keep).items()}
        if sha256_of(values, "") != result.parameters_sha256:
            raise ValueError("the training wrote no files (train was given no output), and the module has other values "
                             'than it ended with. Train with output="runs/mine", then load("runs/mine")')

    def _pulled(self, name, needed, rows, device) -> PulledRows:
        """Return a table's rows for a microbatch. The places of the last microbatch's rows are overwritten."""
        count = self.parts.parameter(name).shape[0]
        if name not in self.lies_at and device.type == "cpu" and count <= MOST_ROWS:
            self.lies_at[name] = torch.zeros(count, dtype=torch.long)
        return PulledRows(name, needed[name], to_tensor(rows[name]).requires_grad_(), self.lies_at.get(name))

    def _running(self, dense) -> dict:
        """Return the running statistics among a step's values, for a call that may write to them: buffer -> tensor."""
        return {v.name: to_tensor(dense[v.name]).clone() for v in self.variables if v.statistic}

    def _gradients(self, loss, values, tables) -> dict:
        """Return variable -> gradient as a tensor. Raises ValueError for parameters that the loss does not use."""
        if not loss.requires_grad:
            raise ValueError("the loss does not depend on any trained parameter: return it as the module computes it, "
                             "without detach() or no_grad()")
        loss.backward()
        self.bound.check_tables()
        inputs = values | {name: table.rows for name, table in tables.items()}
        found = {name: tensor.grad for name, tensor in inputs.items()}
        for value in values.values():
            value.grad = None  # the gradient now belongs to the training
        for name, gradient in found.items():
            if gradient is not None and gradient.layout is not torch.strided:
                raise ValueError(f"the gradient of {name} is sparse, and the variable is dense: say sparse=False where "
                                 "its rows are looked up, or look them up by nn.Embedding alone")
        unused = [name for name in values if found[name] is None]
        if unused and self.unused == "refuse":
            raise ValueError(f"{', '.join(unused)} is not used in a microbatch: on other ranks it may be, and they "
                             "would wait for its gradient. Say requires_grad_(False) if it is never used, or "
                             'TorchModel(..., unused="zero") if its gradient is then 0')
        return {name: torch.zeros_like(inputs[name]) if gradient is None else gradient
                for name, gradient in found.items()}

    def _shares(self, statistics, dense, share, xp) -> dict:
        """Return the "gradients" of running statistics: this microbatch's share of the step's estimate of each."""
        found = statistics_of(self.parts, statistics)
        return {v.name: to_array(found[v.name] * share, xp) if v.name in found else dense[v.name] * share
                for v in self.variables if v.statistic}

    def _refuse_unrepeatable(self, total, needed, rows, batch, device):
        """Raise ValueError unless a second computation of the loss gives ``total``, to the bit."""
        tables = {name: self._pulled(name, needed, rows, device) for name in self.parts.sparse}
        with repeatable(batch.key, device), own_statistics(self.parts.norms):
            values = self.bound.constants(device) | self.bound.statistics(device)
            again = self.bound.call(on_device(batch, device), device, values, tables)
        if to_array(again.cpu()).tobytes() != to_array(total.cpu()).tobytes():
            raise ValueError("the loss of a microbatch changes when it is computed again, and would depend on the "
                             "number of ranks. It may draw from a generator of its own, or count calls: "
                             "let it draw from torch, np.random or random, whose global numbers are seeded, and depend "
                             "on parameters and batch alone")

    def _refuse_mean(self, dense, needed, rows, batch, device):
        """Raise ValueError if the loss is a mean over examples. It is checked once.

        If the number of examples cannot be changed (bags by offset, states of a fixed size), loss modules with
        reduction="mean" are refused.
        """
        def total(one):
            tables = {name: self._pulled(name, needed, rows, device) for name in self.parts.sparse}
            with repeatable(0, device), evaluating(self.module), torch.no_grad():
                values = self.bound.constants(device) | self._running(dense)
                return float(_checked(self.bound.call(on_device(one, device), device, values, tables)))

        verdict, remedy = is_mean(total, batch), f'{WORDS}reduction="sum", or .sum() in place of .mean()'
        if verdict:
            raise ValueError(remedy)
        for name, part in self.module.named_modules() if verdict is None else ():
            if isinstance(part, _Loss) and part.reduction == "mean":
                raise ValueError(f"{name or type(part).__name__} has reduction={part.reduction!r}: {remedy}")
        self.is_sum = True


def _home(dense, rows):
    """Return the array module of a step's values, and PyTorch's device of them."""
    first = next(iter(dense.values()), None) if len(dense) else next(iter(rows.values()), None)
    return array_module(first), torch.device("cpu") if first is None else to_tensor(first).device


def _checked(total):
    """Return the value of a loss. Raises ValueError unless it is one real number."""
    if not isinstance(total, torch.Tensor) or total.ndim or not total.is_floating_point():
        told = f"a tensor of shape {tuple(total.shape)}" if isinstance(total, torch.Tensor) else type(total).__name__
        raise ValueError(f"the loss is {told}: it must be the sum over the microbatch's examples, a tensor of shape ()")
    if total.dtype not in (torch.float32, torch.float64):
        raise ValueError(f"the loss is {str(total.dtype).removeprefix('torch.')}, which has few digits for a sum: add "
                         "up the examples' losses with .float().sum(); torch.autocast may compute them")
    return total


def _carry_on(batch, given, xp):
    """Copy the state that the loss changed into the batch, and what it reports, divided as the loss is."""
    batch.metrics = {name: float(torch.as_tensor(value).detach()) / batch.normaliser
                     for name, value in given.metrics.items()}
    batch.state.clear()
    batch.state.update({name: to_array(value, xp) for name, value in given.state.items()})
