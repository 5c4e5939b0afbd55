"""A road: one way for the gradients of some variables to travel, and the place where these variables live.

A road carries and stores; it knows no optimizer. After an exchange it hands out what this rank holds of each summed
gradient, and the trainer clips and updates it there: so the mathematics cannot depend on the road (DESIGN, I3).
"""

from dataclasses import dataclass, field
from typing import Any, Callable, Protocol

from models import Variable


@dataclass
class Holding:
    """A variable, or the rows of it that this rank owns, with its optimizer state.

    values: whole value (dense, replicated) or (rows owned, d).  state: slot -> array of values' shape.
    """

    variable: Variable
    values: Any
    state: dict[str, Any] = field(default_factory=dict)

    def array(self, slot: str | None):
        """Return the values (slot None) or an array of the optimizer's state."""
        return self.values if slot is None else self.state[slot]


@dataclass
class Summed:
    """The gradient of a holding, summed over the global batch: what clipping and the optimizer work on.

    ids:    None for a whole gradient; else (k,) int64 rows of ``holding.values`` that ``gradient`` (k, d) belongs to.
    counts: True on exactly one rank for each element, so that a norm adds every element once.
    """

    holding: Holding
    ids: Any
    gradient: Any
    counts: bool


class Road(Protocol):
    """What the trainer asks of each road.

    phase: what its exchange is called in metrics and traces.  variables: all that travel here.
    local: every rank holds all values, so that ``pull`` concerns no other rank.
    holdings: name -> Holding, for what this rank holds.
    """

    phase: str
    local: bool
    variables: list[Variable]
    holdings: dict[str, Holding]

    def open(self):
        """Make what ranks can only make together, after all have made the road. Collective, once."""

    def pull(self, needs: dict[str, Any], phase: str = "pull") -> dict[str, Any]:
        """Return name -> (k, d) rows as they are now, of each of the road's sparse variables that is in ``needs``.

        needs: name -> (k,) int64 sorted unique rows; ranks ask for rows of their own, but of the same variables.
        Whole values of dense variables are fetched too: see ``dense``. May be called several times a step.
        Collective; local where the road is.
        """

    def dense(self) -> dict[str, Any]:
        """Return name -> whole value of the dense variables, as pulled. Local."""

    def add(self, leaf: int, gradients: dict[str, Any] | None):
        """Add a microbatch's gradients; None if it had no examples. Leaves come in order. Local."""

    def held(self) -> list:
        """Return the arrays of what was added which ``push`` lets go of, to be kept by whom it reads for. Local."""

    def push(self) -> list[Summed]:
        """Exchange and sum what was added; return what this rank holds of the sums. Collective.

        On the server a sparse variable comes as one Summed a round of this rank's partitions, and ``push(arrived)``
        calls arrived(summed) as soon as each is there: an update that needs no global norm can happen at once.
        """

    def collect(self, name: str, slot: str | None, everyone: bool, phase: str) -> Any:
        """Return a whole variable or state array, on rank 0 or on everyone (else None). Collective."""

    def place(self, name: str, slot: str | None, read: Callable):
        """Set what this rank holds of an array; read(rows) returns it, whole if rows is None. Local."""
