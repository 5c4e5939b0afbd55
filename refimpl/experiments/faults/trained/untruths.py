"""What a lying model returns, writes and keeps: one line for each lie about rows, gradients and evaluation. Local."""

import numpy as np

from kernels import RowGradient
from refimpl.experiments.faults.trained.subject import ROWS


def of_rows(lie: str, needed: dict, batch) -> dict:
    """Return what ``rows_needed`` says instead."""
    ids = needed["table"]
    match lie:
        case "ids unsorted":
            return {"table": ids[::-1]}
        case "ids out of range":
            return {"table": np.append(ids, ROWS + 7)}
        case "ids negative":
            return {"table": np.insert(ids, 0, -1)}
        case "ids of floats":
            return {"table": ids + 0.25}
        case "ids None":
            return {"table": None}
        case "ids for a dense variable":
            return {**needed, "weight": ids[:1]}
        case "ids forgotten":
            return {}
        case "ids shrink":
            return {"table": ids[:-1]}
        case "writes into inputs":
            batch.inputs[:] = 0
    return needed


def write_before(lie: str, dense, rows, batch):
    """Write where a model may not, before it computes."""
    match lie:
        case "writes into dense":
            dense["weight"][...] += 1
        case "writes by np.add.at":  # which overlooks that an array of one axis is read-only
            np.add.at(dense["weight"].reshape(-1), np.zeros(1, np.intp), np.ones(1, np.float32))
        case "writes into rows":
            rows["table"][...] += 1
        case "writes into inputs":
            batch.inputs[:] = batch.inputs[0]
        case "writes into targets":
            batch.targets[:] = 0
        case "state is a string":
            batch.state["word"] = "a string"
        case "state is an object":
            batch.state["word"] = object()


def keep(lie: str, dense, rows, gradients) -> list:
    """Return the arrays to write to at the next call."""
    match lie:
        case "keeps dense and writes later":
            return [dense["weight"]]
        case "keeps rows and writes later":
            return [rows["table"]]
        case "keeps gradients and writes later":
            return [gradients["weight"], gradients["table"].rows]
    return []


def of_gradients(lie: str, loss, gradients, batch):
    """Return what ``loss_and_gradients`` returns instead."""
    if lie in _LOSS:
        return _LOSS[lie](loss), gradients
    if lie in _DENSE:
        return loss, {**gradients, "weight": _DENSE[lie](gradients["weight"])}
    if lie in _ROWS:
        return loss, {**gradients, "table": _ROWS[lie](gradients["table"])}
    match lie:
        case "gradients are None":
            return loss, None
        case "gradient is missing":
            return loss, {name: gradients[name] for name in ("table", "weight")}
        case "gradient too many":
            return loss, {**gradients, "wieght": gradients["weight"]}
    return loss, gradients


_LOSS = {"loss is a string": str, "loss is None": lambda loss: None, "loss is an array": lambda loss: np.ones(2) * loss,
         "loss is complex": lambda loss: loss + 1j, "loss is NaN": lambda loss: float("nan"),
         "loss of NumPy": np.float64}
_DENSE = {"gradient is None": lambda g: None, "gradient is a string": lambda g: "gradient",
          "gradient is masked": lambda g: np.ma.masked_array(g, mask=g > 0),
          "gradient is of objects": lambda g: g.astype(object),
          "gradient is of integers": lambda g: (100 * g).astype(np.int64),
          "gradient is of float64": lambda g: g.astype(np.float64), "gradient is transposed": lambda g: g.T,
          "gradient is one number": lambda g: np.float32(1), "gradient is NaN": lambda g: g * np.float32("nan")}
_ROWS = {"rows are NaN": lambda g: RowGradient(g.ids, g.rows * np.float32("nan")),
         "rows are of float64": lambda g: RowGradient(g.ids, g.rows.astype(np.float64)),
         "rows too narrow": lambda g: RowGradient(g.ids, g.rows[:, :2]),
         "row gradient is dense": lambda g: np.ones((ROWS, 3), np.float32),
         "row gradient's ids unsorted": lambda g: RowGradient(g.ids[::-1], g.rows),
         "row gradient's ids twice": lambda g: RowGradient(np.repeat(g.ids, 2), np.repeat(g.rows, 2, axis=0)),
         "row gradient's ids out of range": lambda g: RowGradient(g.ids + ROWS, g.rows),
         "row gradient's ids not asked for": lambda g: RowGradient(_others(g.ids), g.rows)}


def _others(ids):
    """Return as many sorted ids, one of which is not in ``ids``."""
    other = next(row for row in range(ROWS) if row not in ids)
    return np.sort(np.append(ids[1:], other))


def of_evaluation(lie: str, sums: dict, tables):
    """Return what ``evaluate`` returns instead."""
    match lie:
        case "evaluates to None":
            return None
        case "evaluates to strings":
            return {name: str(value) for name, value in sums.items()}
        case "evaluates to NaN":
            return {**sums, "loss": float("nan")}
        case "writes into tables":
            tables["table"][...] = 0
    return sums
