"""Checks of lesson 4: one variable by hand, a plan by hand, and when it is better to send a sparse variable whole."""

from dataclasses import dataclass

import refimpl.strategies  # noqa: F401  registers the strategies for names_of
from refimpl.notebook.exercises import answered, exercise, right, wrong
from refimpl.plain.strategies.cost_table import (
    Setting, Sparse, dense_allreduce, dense_server_at_owner, sparse_allgather, sparse_as_dense, sparse_server_spread,
)
from refimpl.plan.strategy import names_of

KERNEL_BYTES = 128 * 1024 * 4


@exercise
def check_kernel(answer):
    """Check (bytes at each machine by allreduce, bytes at the owner by the server) of the kernel on 4 machines."""
    allreduce, owner = answer
    if allreduce != dense_allreduce(KERNEL_BYTES, Setting(4)):
        return wrong("by allreduce a machine sends the vector without its own quarter while summing, and again while "
                     "distributing the sum, and receives the same: 4 w (N - 1) / N")
    if owner != dense_server_at_owner(KERNEL_BYTES, Setting(4)):
        return wrong("three machines pull w bytes from the owner, and three push w bytes to it: count both directions")
    return right("the total is the same, but allreduce spreads the bytes over four cards, and with the server all pass "
                 "through one card")


@dataclass(frozen=True)
class Wish:
    """A variable of the exercise. columns: float32 numbers in a row.  alpha: part of the rows that a worker touches."""

    sparse: bool
    rows: int
    columns: int
    alpha: float = 1.0

    def bytes_by_strategy(self, machines: int) -> dict[str, float]:
        """Return strategy -> bytes of a step through the busiest card, with row numbers; owners have equal parts."""
        setting, size = Setting(machines), Sparse(self.rows, 4 * self.columns, self.alpha)
        if not self.sparse:
            whole = self.rows * self.columns * 4
            return {"allreduce": float(dense_allreduce(whole, setting)),
                    "server": float(dense_server_at_owner(whole, setting))}
        spread = Sparse(self.rows / machines, 4 * self.columns, self.alpha)
        return {"server": float(sum(sparse_server_spread(spread, setting, machines))),
                "allgather": float(sum(sparse_allgather(size, setting))),
                "as-dense": float(sparse_as_dense(size, setting))}


MACHINES = 8
WISHES = {"filters": Wish(False, 2_000, 512), "words": Wish(True, 800_000, 128, 0.01),
          "tags": Wish(True, 50_000, 64, 0.5), "positions": Wish(True, 512, 128, 1.0)}
"""The exercise's variables, on MACHINES machines."""


@exercise
def check_plan(plan):
    """Check a plan for WISHES, variable -> strategy: each has the one with the least bytes at the busiest card."""
    if missing := [name for name in WISHES if plan.get(name, ...) is ...]:
        return wrong(f"{', '.join(missing)}: which way?") if len(missing) < len(WISHES) else answered(...)
    for name, wish in WISHES.items():
        if plan[name] not in names_of(wish.sparse, automatic=True):
            kind = "sparse" if wish.sparse else "dense"
            return wrong(f"{name} is {kind}: it can go {', '.join(names_of(wish.sparse, automatic=True))}")
        counts = wish.bytes_by_strategy(MACHINES)
        best = min(counts, key=counts.get)
        if plan[name] != best:
            return wrong(f"{name} by {plan[name]}: another way puts {counts[plan[name]] / counts[best]:.2f} times less "
                         f"on the busiest card; α is {wish.alpha:g}, N is {MACHINES}")
    return right("two of the four are sparse and belong on the server; one has a sparse type but uses all of its rows")


@exercise
def check_crossing(crossing):
    """Check a function: columns of a float32 row -> the α above which the server moves more than allreduce."""
    for columns in (64, 1, 512):
        given, setting = answered(crossing(columns)), Setting(4)
        size = Sparse(1000, 4 * columns, 1)
        spread = Sparse(250, 4 * columns, 1)
        expected = float(sparse_as_dense(size, setting) / sum(sparse_server_spread(spread, setting, 4)))
        if abs(given - expected) > 1e-9:
            return wrong(f"for {columns} columns you say {given:.4g}; set α (4 d + 8) equal to 4 d + 4: a touched row "
                         "travels with its 8-byte number, and in an allreduce each row has a mark of 4 bytes")
    return right("2/3 for one column, nearly 1 for wide rows: with these the server wins until nearly all are touched")
