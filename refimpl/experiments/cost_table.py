"""The paper's cost table, measured: the bytes of a step for variables of one kind and strategy, from the ledger.

    case = CostCase(sparse=True, strategy="server", variables=4, alpha=Fraction(1, 8))
    count_bytes(case, comm) == [closed_formula(case, comm.size)] * comm.size

Rows are touched as the closed formulas assume: each rank touches α R rows of every variable, not the same on every
rank. The trainer does the step. Source: docs/paper.md, Bytes.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from kernels import RowGradient
from models import Batch, Variable
from models.data.protocol import fingerprint_of
from refimpl.collectives.simulation.network import Network
from refimpl.pictures.lines import Line
from refimpl.plain.strategies.cost_table import (
    Bytes, Setting, Sparse, dense_allreduce, dense_server_at_owner, dense_server_spread, sparse_allgather,
    sparse_as_dense, sparse_server_at_owner, sparse_server_spread,
)
from refimpl.plan import Plan, make_plan
from refimpl.plan.cost import bytes_between
from refimpl.plan.predict import Predictor
from refimpl.plan.sample import take_sample
from refimpl.plan.strategy import names_of
from refimpl.training.options import Options
from refimpl.training.trainer import Trainer
from refimpl.transport import Communicator
from refimpl.transport.machines import Machines, in_blocks

ITEM = 4  # bytes of an element: float32


@dataclass(frozen=True)
class CostCase:
    """m variables of (rows, columns) float32 with one strategy, and α, the part of the rows that a rank touches.

    strategy: its name, as plans have it.  partitions: P of each sparse variable on the server, interleaved.
    Variables and partitions are spread over the owners; one variable in one partition has one owner.
    Raises ValueError for a strategy of the other kind, and if partitions cannot have the same number of touched rows.
    """

    sparse: bool
    strategy: str
    variables: int = 1
    rows: int = 240
    columns: int = 16
    alpha: Fraction = Fraction(1)
    partitions: int = 1

    def __post_init__(self):
        known = names_of(self.sparse, automatic=True)
        if self.strategy not in known:
            kind = "sparse" if self.sparse else "dense"
            raise ValueError(f"a {kind} variable has no strategy {self.strategy!r}; give {', '.join(known)}")
        if self.partitions > 1 and not (self.sparse and self.strategy == "server"):
            raise ValueError(f"{self.partitions} partitions: only a sparse variable on the server has any")
        if not 0 <= self.alpha <= 1 or self.alpha * self.rows % self.partitions or self.rows % self.partitions:
            raise ValueError(f"α = {self.alpha} of {self.rows} rows: give an α with which each of "
                             f"{self.partitions} partitions has the same whole number of touched rows")

    @property
    def title(self) -> str:
        """The kind and the strategy as text, for tables and plots."""
        return f"{'sparse' if self.sparse else 'dense'}, {self.strategy.replace('as-dense', 'sent whole')}"

    @property
    def nbytes(self) -> int:
        """w: bytes of one variable."""
        return self.rows * self.columns * ITEM


def closed_formula(case: CostCase, ranks: int) -> Bytes:
    """Return the cell of the cost table: bytes in and out of the busiest rank in a step. Local.

    One variable in one partition on the server: its owner's. Several: everyone's.
    Raises ValueError if they are not a multiple of the ranks, so that some own more than others.
    """
    setting = Setting(machines=ranks)
    m, parts = case.variables, case.variables * case.partitions
    if case.strategy == "server" and parts > 1 and parts % ranks:
        raise ValueError(f"{parts} variables and partitions are not spread evenly over {ranks} ranks: give a multiple")
    size = Sparse(case.rows // case.partitions, case.columns * ITEM, case.alpha)
    if case.sparse and case.strategy == "server":
        return sparse_server_at_owner(size, setting) if parts == 1 else sparse_server_spread(size, setting, parts)
    if case.strategy == "allgather":
        return sparse_allgather(size, setting, m)
    if case.strategy == "as-dense":
        return Bytes(sparse_as_dense(size, setting, m), 0)
    if case.strategy == "allreduce":
        return Bytes(dense_allreduce(case.nbytes, setting, m), 0)
    values = dense_server_at_owner(case.nbytes, setting) if m == 1 else dense_server_spread(case.nbytes, setting, m)
    return Bytes(values, 0)


def count_bytes(case: CostCase, comm=None) -> list[Bytes]:
    """Do one training step of a case; return the bytes in and out of each rank. Collective.

    Each rank is its own machine, so nothing goes through shared memory. The list is the same on every rank.
    """
    comm = Communicator.of(comm)
    comm = Communicator(comm.mpi, machines=in_blocks(comm.size, 1))
    model, plan = Touching(case), plan_of_case(case, comm.machines)
    options = Options(plan=json.loads(json.dumps(plan.to_json())), optimizer="sgd", overlap=False, shared_memory=False)
    Trainer.open(model, Slices(case, comm.size), options, comm).train_step()
    names, ledger = {v.name for v in model.variables}, comm.ledger
    mine = np.zeros(2, np.int64)
    for counter in (ledger.sent, ledger.received):
        for (_, variable, kind), count in counter.items():
            if variable in names:
                mine[int(kind == "indices")] += count
    return [Bytes(int(values), int(indices)) for values, indices in comm.share(mine, "report")]


def who_sends_whom(case: CostCase, ranks: int) -> np.ndarray:
    """Return the bytes of a step from rank to rank, as the plan counts them: (N, N) int64. Local."""
    model = Touching(case)
    sample = take_sample(model, Slices(case, ranks), 0, (0,))
    found = bytes_between(plan_of_case(case, in_blocks(ranks, 1)), model.variables, *sample.both(0, ranks))
    return sum((matrix for (_, name, _), matrix in found.items() if name), np.zeros((ranks, ranks), np.int64))


def foretell_seconds(case: CostCase, network: Network) -> float:
    """Return the predicted seconds of a step's exchanges on a network. Local.

    Beyond the formulas it counts latency, messages, sums, and the busiest card.
    """
    model = Touching(case)
    sample = take_sample(model, Slices(case, network.ranks), 0, (0,))
    return Predictor(model.variables, sample, network).seconds(plan_of_case(case, network.machines))


def lines_of_strategies(case_of: Callable[[str, float], tuple[CostCase, int]], x: Sequence[float],
                        measured_at: Sequence[float], measured: dict[str, list[int]]) -> list[Line]:
    """Return each strategy's formula as a line, its measured bytes as points on it, in kB in and out of a rank. Local.

    case_of(strategy, x): the case and the number of ranks at x.  x: the formulas are calculated there.
    measured: strategy -> bytes of values and row numbers at each of ``measured_at``.
    """
    found = []
    for style, (strategy, counted) in enumerate(measured.items()):
        cases = [case_of(strategy, place) for place in x]
        found.append(Line(cases[0][0].title, x, [float(sum(closed_formula(*case))) / 1000 for case in cases], style))
        found.append(Line("measured", measured_at, [count / 1000 for count in counted], style, points=True))
    return found


def plan_of_case(case: CostCase, machines: Machines) -> Plan:
    """Return the plan in which all variables of a case have its strategy; partitions are interleaved. Local."""
    variables, ranks = Touching(case).variables, sum(map(len, machines))
    return make_plan(variables, "auto", ranks, ranks, partitions=case.partitions, scheme="interleaved",
                     allreduce="direct", machines=machines, strategies={v.name: case.strategy for v in variables})


class Touching:
    """A model that only makes traffic: its gradient is 1 in each row that its microbatch names, or everywhere."""

    def __init__(self, case: CostCase):
        self.sparse = case.sparse
        self.variables = [Variable(f"variable {i}", (case.rows, case.columns), sparse=case.sparse)
                          for i in range(case.variables)]

    def rows_needed(self, batch):
        return {v.name: batch.inputs for v in self.variables if v.sparse}

    def loss_and_gradients(self, dense, rows, batch):
        if self.sparse:
            return 0.0, {name: RowGradient(batch.inputs, np.ones_like(values)) for name, values in rows.items()}
        return 0.0, {v.name: np.ones(v.shape, v.dtype) for v in self.variables}


class Slices:
    """Data of one microbatch a rank: α R neighbouring rows, with a different first row for each rank. See ``Data``."""

    steps_per_epoch = 1

    def __init__(self, case: CostCase, ranks: int):
        self.case, self.microbatches = case, ranks

    @property
    def fingerprint(self) -> str:
        return fingerprint_of("slices", self.case.rows, str(self.case.alpha), self.microbatches)

    def examples(self, step: int) -> int:
        return self.microbatches

    def starts_epoch(self, step: int) -> bool:
        return True

    def microbatch(self, step: int, index: int) -> Batch:
        rows = self.case.rows
        first = index * rows // self.microbatches
        touched = (first + np.arange(int(self.case.alpha * rows))) % rows
        return Batch(np.sort(touched).astype(np.int64), None, None, float(self.microbatches))
