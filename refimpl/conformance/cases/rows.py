"""Aggregation of row gradients: who was counted, pairs of ids and rows, repeats, none at all, large row numbers."""

import numpy as np

from refimpl.conformance.case import Case, Rows, Variable
from refimpl.conformance.cases.numbers import cancelling, exact, provenance

COLUMNS = 3


def cases(ranks: int):
    """Yield the cases for a number of ranks."""
    everyone = range(ranks)
    yield _provenance(ranks)
    touched = [[k for k in range(3 * ranks) if k % ranks <= r or k % 3 == r % 3] for r in everyone]
    yield rows_case("exact", "rows that 1, 2, ... all ranks touch, unsorted, some twice: tolerance zero", ranks,
                    {"table": 3 * ranks + 1},
                    [[{"table": exact_rows(f"exact{r}", [*ids[::-1], *ids[:2]])} for r, ids in enumerate(touched)]])
    yield rows_case("cancelling", "rows that cancel, within γ Σ|x| of the correctly rounded sum", ranks, {"table": 19},
                    [[{"table": Rows(np.arange(9)[::-1] * 2, array)}
                      for array in cancelling("rows cancelling", ranks, (9, COLUMNS))]], exact=False)
    yield rows_case("positions", "as many rows on every rank, and no id on two of them", ranks, {"table": 4 * ranks},
                    [[{"table": exact_rows(f"position{r}", np.arange(4) * ranks + r)} for r in everyone]])
    yield rows_case("duplicates", "one id only, again and again; ids repeated among others", ranks,
                    {"table": 8, "mixed": 9},
                    [[{"table": exact_rows(f"same{r}", [5] * 4), "mixed": exact_rows(f"mixed{r}", [2, r, 2, 7, r])}
                      for r in everyone]])
    for r in sorted({0, ranks - 1}):
        yield rows_case(f"empty-on-{'first' if r == 0 else 'last'}", f"rank {r} touches no row", ranks, {"table": 9},
                        [[{"table": exact_rows(f"empty{rank}", [] if rank == r else [1, 6, rank])}
                          for rank in everyone]])
    yield rows_case("empty-on-all", "no rank touches a row of one variable", ranks, {"table": 9, "other": 9},
                    [[{"table": exact_rows("none", []), "other": exact_rows(f"other{r}", [r])} for r in everyone]])
    yield from _awkward(ranks)


def _awkward(ranks):
    """Yield borders of partitions, large row numbers, strides and steps."""
    everyone, count = range(ranks), 4 * ranks + 3  # uneven partitions; all ranks touch the last row
    borders = sorted({k for p in range(1, ranks + 1) for k in (p * count // ranks - 1, p * count // ranks)
                      if k < count})
    yield rows_case("last-row", "rows at the borders of uneven partitions, and the very last", ranks, {"table": count},
                    [[{"table": exact_rows(f"last{r}", sorted({*borders[r % 2::2], count - 1}))} for r in everyone]])
    for name, base, lost, dtypes in (("2^24", 2**24, "float32", ["int64", "int32"]),
                                     ("2^31", 2**31, "int32", ["int64"])):
        ids = [base - 1, base + 1, base + 3]
        yield rows_case(f"ids-{name}", f"row numbers around and above {name}: none may pass through {lost}", ranks,
                        {"table": base + 2 * ranks + 9},
                        [[{"table": exact_rows(f"{name}{r}", [*ids, base + 5 + 2 * r], columns=2)} for r in everyone]],
                        columns=2, settings={"only": {"id_dtype": dtypes}})
    apart = [np.array([7, 0, 1, 0, r, 0, 5, 0], np.int64)[::2] for r in everyone]
    yield rows_case("strided", "ids and rows that are not contiguous", ranks, {"table": 9},
                    [[{"table": Rows(apart[r], exact(f"strided{r}", (4, 2 * COLUMNS))[:, ::2])} for r in everyone]])
    yield rows_case("steps", "other rows each step, one right after the other", ranks, {"table": 12},
                    [[{"table": exact_rows(f"s{s}{r}", [(s + r) % 6, (2 * s + r + 1) % 6 + 6])} for r in everyone]
                     for s in range(3)])


def _provenance(ranks):
    """Some rows on all ranks, some on a few; the two variables have different ids on each rank."""
    tables, step = {"users": 23, "items": 23}, []
    for r in range(ranks):
        parts = {}
        for i, name in enumerate(tables):
            ids = np.array([k for k in range(i, 23, 2) if k % (r + 2) or k < 4], np.int64)
            coded = [provenance(r, ranks, i, (COLUMNS,), first=int(k) * COLUMNS) for k in ids]
            parts[name] = Rows(ids, np.array(coded, np.float32).reshape(len(ids), COLUMNS))
        step.append(parts)
    return rows_case("provenance", "rank r contributes 4^r times a code of variable, row and column", ranks, tables,
                     [step], settings={"provenance": True})


def rows_case(name, about, ranks, tables: dict[str, int], steps, columns=COLUMNS, **more) -> Case:
    """Return a case of sparse variables. tables: name -> number of rows.  steps[s][rank]: name -> Rows."""
    variables = tuple(Variable(n, (rows, columns), True) for n, rows in tables.items())
    return Case(f"rows/{name}", "rows", about, ranks, variables, tuple(map(tuple, steps)), **more)


def exact_rows(key, ids, columns=COLUMNS) -> Rows:
    """Return exact rows for these ids."""
    return Rows(np.asarray(ids, np.int64), exact(key, (len(ids), columns)))
