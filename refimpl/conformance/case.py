"""A case: inputs of every rank, and the function of the adapter that they are given to. Plain data."""

from dataclasses import dataclass, field
from typing import Any, Callable, Union

import numpy as np

from refimpl.plain.adding.rows import Rows


@dataclass(frozen=True)
class CaseVariable:
    """A named array: dense of any shape, or sparse with shape (rows, columns)."""

    name: str
    shape: tuple[int, ...]
    sparse: bool = False
    dtype: str = "float32"
    statistic = False  # a case's variables are all trained


Part = Union[np.ndarray, Rows]
"""One rank's gradient of one variable."""


def nothing_of(variable: CaseVariable) -> Part:
    """Return the gradient of a rank that has none: zeros, or no rows. Local."""
    if variable.sparse:
        return Rows(np.empty(0, np.int64), np.empty((0, variable.shape[1]), variable.dtype))
    return np.zeros(variable.shape, variable.dtype)


def numbers_of(part: Part) -> np.ndarray:
    """Return the numbers of a gradient, without its ids. Local."""
    return part.rows if isinstance(part, Rows) else part


def with_numbers(part: Part, change: Callable) -> Part:
    """Return a gradient of the same ids, its numbers changed: change(array) -> array. Local."""
    return Rows(part.ids, change(part.rows)) if isinstance(part, Rows) else change(part)


def double(part: Part) -> Part:
    """Return a gradient in float64. Local."""
    return with_numbers(part, lambda x: x.astype(np.float64))


@dataclass(frozen=True)
class Case:
    """What each rank hands to the adapter, step after step.

    kind: which function is called, see ``kinds``.  steps[s][rank]: name -> Part, in the order in which the rank
    produces them; None where it has none.  exact: sums of these inputs have no rounding errors in any order.
    settings: plain JSON values that the kind understands.  needs: what of SUPPORTS it takes.
    """

    name: str
    kind: str
    about: str
    ranks: int
    variables: tuple[CaseVariable, ...]
    steps: tuple[tuple[dict[str, Any], ...], ...]
    exact: bool = True
    settings: dict = field(default_factory=dict)
    needs: tuple[str, ...] = ()

    @property
    def may_be_refused(self) -> bool:
        """Whether a right answer may be an error."""
        return bool(self.settings.get("nonfinite") or self.settings.get("refused"))

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """name -> shape of the sparse variables."""
        return {v.name: v.shape for v in self.variables if v.sparse}

    def variable(self, name: str) -> CaseVariable:
        """Return a variable by name. An answer like ``waited``, which is no variable, becomes a scalar."""
        return next((v for v in self.variables if v.name == name), CaseVariable(name, ()))


def handed(part):
    """Return a copy that the adapter may keep and write to. It is contiguous only if the original is. Local."""
    if part is None:
        return None
    if isinstance(part, Rows):
        return handed(part.ids), handed(part.rows)
    if isinstance(part, (list, tuple)):
        return [handed(p) for p in part]
    if part.flags.c_contiguous:
        return np.array(part)  # of a scalar too
    if part.ndim == 1 and part.strides[0] < 0:
        return part[::-1].copy()[::-1]
    wide = np.empty((*part.shape, 2), part.dtype)
    wide[..., 0] = part
    return wide[..., 0]


def inputs(case: Case, step: int, rank: int) -> dict[str, Any]:
    """Return name -> array, (ids, rows) or None, in the rank's order, in new memory. Local."""
    return {name: handed(part) for name, part in case.steps[step][rank].items()}


@dataclass(frozen=True)
class Task:
    """A training on given gradients: what ``update``, ``accumulate`` and ``resume`` get on each rank.

    start: name -> this rank's initial value.  optimizer: sgd, momentum, nesterov, dampened, adagrad, adam
    or adamw.  options: all of its numbers, see ``refimpl.plain.updating.optimizers``; decay: weight decay.
    rate: of update k (from 0) it is rate * rate_factor**k.  clip: largest gradient norm, None: no clipping.
    loss_scale: the gradients given are this many times too large.  window: micro-steps accumulated for one update.
    resume_after: the number of updates after which the state is saved, forgotten and loaded again.
    steps: this rank's gradients, micro-step after micro-step: name -> Part.
    """

    variables: tuple[CaseVariable, ...]
    start: dict[str, np.ndarray]
    optimizer: str
    rate: float
    options: dict[str, float]
    steps: list[dict[str, Any]]
    rate_factor: float = 1.0
    clip: float | None = None
    loss_scale: float = 1.0
    window: int = 1
    resume_after: int | None = None


@dataclass(frozen=True)
class Arrivals:
    """What comes to an owner without barriers, in order: what ``serve`` gets, the same on each rank.

    start: name -> initial value; of a sparse variable (ids, rows): those that the entries name.
    optimizer, rate, options: as in ``Task``.  workers: N.
    consistency: asynchronous, bounded:S, softsync:n or backup:B.  correction: none, staleness-aware, dc-asgd or
    dc-asgd-adaptive.  constants: the correction's numbers: lam (λ); of the adaptive one m and epsilon too.
    entries: ("pull", worker, {name: ids} of each sparse variable), or ("push", worker, {name: array or (ids, rows)}),
    the mean over that worker's own examples. A worker pulls and pushes by turns; ids rise, each once.
    """

    variables: tuple[CaseVariable, ...]
    start: dict[str, Any]
    optimizer: str
    rate: float
    options: dict[str, float]
    workers: int
    consistency: str
    correction: str
    constants: dict[str, float]
    entries: list[tuple[str, int, dict[str, Any]]]


@dataclass(frozen=True)
class Connected:
    """A fully connected layer: z = x @ weight.T + bias, then relu and dropout, unless it is the last.

    cut: its outputs, rows of weight (outputs, inputs) and of bias (outputs,), lie on the members of a group.
    """

    name: str
    inputs: int
    outputs: int
    cut: bool
    last: bool

    @property
    def weight(self) -> str:
        """Name of its weight."""
        return f"{self.name}.weight"

    @property
    def bias(self) -> str:
        """Name of its bias."""
        return f"{self.name}.bias"


@dataclass(frozen=True)
class MeshTask:
    """One step of fully connected layers on a mesh: what ``mesh_step`` gets on each rank.

    mesh: (G, K); rank r is member r % K of group r // K.  The members of a group share each layer that is cut: member k
    has outputs [k F / K, (k + 1) F / K) of F, the same part in each group. Whole layers are on every rank.
    start: name -> whole initial value, of "LAYER.weight" and "LAYER.bias".
    microbatches: this rank's, a multiple of K: (x (n, inputs), g (n, outputs)); n may be 0.
    first: number of the first of them among those of all ranks, in order of rank.
    dropout: layer -> of each microbatch of all ranks what its outputs are multiplied with, (n, outputs); {}: nothing.
    The loss is the sum over all ranks' examples of y * g, divided by ``normaliser``.
    clip: largest norm of its gradient, all layers together; None: any.  One update: w - rate * clipped gradient.
    """

    mesh: tuple[int, int]
    layers: tuple[Connected, ...]
    start: dict[str, np.ndarray]
    microbatches: list[tuple[np.ndarray, np.ndarray]]
    first: int
    dropout: dict[str, list[np.ndarray]]
    normaliser: float
    rate: float
    clip: float | None


@dataclass(frozen=True)
class CodecTask:
    """Steps of one encoded variable, (size,) float32: what ``encode_steps`` gets on each rank.

    codec, and its number: bf16; fp16; integers, their bits; topk and dgc, how many elements a unit sends; threshold, τ;
    adacomp, the elements of a bin; onebit; qsgd, the levels above 0; terngrad, the standard deviations at which it
    clips; powersgd, r.  units: V, those of all ranks.
    steps: ({unit: gradient (size,)}, {unit: (size,) float64 random numbers in [0, 1)}) of this rank's units.
    momentum, clip: of dgc.  q: of powersgd the matrix of the first step, (n, r); a gradient is a matrix of n columns.
    """

    codec: str
    number: float
    units: int
    size: int
    steps: list[tuple[dict[int, np.ndarray], dict[int, np.ndarray]]]
    momentum: float = 0.5
    clip: float = 1.0
    q: np.ndarray | None = None
