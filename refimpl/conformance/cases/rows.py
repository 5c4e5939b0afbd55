"""Aggregation of row gradients: who was counted, pairs of ids and rows, repeats, none at all, large row numbers."""

import numpy as np

from refimpl.conformance.case import Case, CaseVariable, Rows
from refimpl.conformance.cases.numbers import cancelling, exact, provenance

COLUMNS = 3


def cases(ranks: int):
    """Yield the cases for a number of ranks."""
    yield rows_case("provenance", "rank r contributes 4^r times a code of variable, row and column", ranks,
                    {"users": 23, "items": 23}, lambda r, s: _provenance(r, ranks), settings={"provenance": True})
    touched = [[k for k in range(3 * ranks) if k % ranks <= r or k % 3 == r % 3] for r in range(ranks)]
    yield rows_case("exact", "rows that 1, 2, ... all ranks touch, unsorted, some twice: tolerance zero", ranks,
                    {"table": 3 * ranks + 1},
                    lambda r, s: {"table": exact_rows(f"exact{r}", [*touched[r][::-1], *touched[r][:2]])})
    cancel = cancelling("rows cancelling", ranks, (9, COLUMNS))
    yield rows_case("cancelling", "rows that cancel, within γ Σ|x| of the correctly rounded sum", ranks, {"table": 19},
                    lambda r, s: {"table": Rows(np.arange(9)[::-1] * 2, cancel[r])}, exact=False)
    yield rows_case("positions", "as many rows on every rank, and no id on two of them", ranks, {"table": 4 * ranks},
                    lambda r, s: {"table": exact_rows(f"position{r}", np.arange(4) * ranks + r)})
    yield rows_case("duplicates", "one id only, again and again; ids repeated among others", ranks,
                    {"table": 8, "mixed": 9},
                    lambda r, s: {"table": exact_rows(f"same{r}", [5] * 4),
                                  "mixed": exact_rows(f"mixed{r}", [2, r, 2, 7, r])})
    for none in sorted({0, ranks - 1}):
        yield rows_case(f"empty-on-{'last' if none else 'first'}", f"rank {none} touches no row", ranks, {"table": 9},
                        lambda r, s: {"table": exact_rows(f"empty{r}", [] if r == none else [1, 6, r])})
    yield rows_case("empty-on-all", "no rank touches a row of one variable", ranks, {"table": 9, "other": 9},
                    lambda r, s: {"table": exact_rows("none", []), "other": exact_rows(f"other{r}", [r])})
    if ranks > 1:
        yield rows_case("absent", "the last rank has no gradient of one variable: None, which counts as no rows", ranks,
                        {"table": 9, "other": 9}, lambda r, s: {"table": exact_rows(f"absent{r}", [1, r, 1]), "other":
                        None if r == ranks - 1 else exact_rows(f"other{r}", [2, r])}, needs=("absent",))
    yield from _awkward(ranks)


def _awkward(ranks):
    """Yield borders of partitions, large row numbers, strides and steps."""
    count = 4 * ranks + 3  # uneven partitions; all ranks touch the last row
    borders = sorted({k for p in range(1, ranks + 1) for k in (p * count // ranks - 1, p * count // ranks)
                      if k < count})
    yield rows_case("last-row", "rows at the borders of uneven partitions, and the very last", ranks, {"table": count},
                    lambda r, s: {"table": exact_rows(f"last{r}", sorted({*borders[r % 2::2], count - 1}))})
    for name, base, lost, dtypes in (("2^24", 2**24, "float32", ["int64", "int32"]),
                                     ("2^31", 2**31, "int32", ["int64"]), ("2^32", 2**32, "uint32", ["int64"])):
        yield rows_case(f"ids-{name}", f"row numbers around and above {name}: none may pass through {lost}", ranks,
                        {"table": base + 2 * ranks + 9},
                        lambda r, s: {"table": exact_rows(f"{name}{r}", [base + k for k in (-1, 1, 3, 5 + 2 * r)], 2)},
                        columns=2, settings={"only": {"id_dtype": dtypes}})
    yield rows_case("ids-2^30", "row numbers of which 32 bits hold the number, and not the place: number times columns",
                    ranks, {"table": 2**30 + 2 * ranks + 9}, lambda r, s: {"table": exact_rows(
                        f"2^30{r}", [2**30 + k for k in (-1, 1, 3, 5 + 2 * r)], 4)}, columns=4)
    yield rows_case("strided", "ids and rows that are not contiguous", ranks, {"table": 9},
                    lambda r, s: {"table": Rows(np.array([7, 0, 1, 0, r, 0, 5, 0], np.int64)[::2],
                                                exact(f"strided{r}", (4, 2 * COLUMNS))[:, ::2])})
    yield rows_case("steps", "other rows each step, one right after the other", ranks, {"table": 12},
                    lambda r, s: {"table": exact_rows(f"s{s}{r}", [(s + r) % 6, (2 * s + r + 1) % 6 + 6])}, steps=3)


def _provenance(rank, ranks) -> dict[str, Rows]:
    """Some rows on all ranks, some on a few; the two variables have different ids on each rank."""
    parts = {}
    for i, name in enumerate(("users", "items")):
        ids = np.array([k for k in range(i, 23, 2) if k % (rank + 2) or k < 4], np.int64)
        coded = [provenance(rank, ranks, i, (COLUMNS,), first=int(k) * COLUMNS) for k in ids]
        parts[name] = Rows(ids, np.array(coded, np.float32).reshape(len(ids), COLUMNS))
    return parts


def rows_case(name, about, ranks, tables: dict[str, int], make, steps=1, columns=COLUMNS, **more) -> Case:
    """Return a case of sparse variables. tables: name -> number of rows.  make(rank, step) -> name -> Rows."""
    variables = tuple(CaseVariable(n, (rows, columns), True) for n, rows in tables.items())
    inputs = tuple(tuple(make(r, s) for r in range(ranks)) for s in range(steps))
    return Case(f"rows/{name}", "rows", about, ranks, variables, inputs, **more)


def exact_rows(key, ids, columns=COLUMNS) -> Rows:
    """Return exact rows for these ids."""
    return Rows(np.asarray(ids, np.int64), exact(key, (len(ids), columns)))
