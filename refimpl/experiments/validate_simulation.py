"""Compare predicted with measured seconds: algorithms x sizes on an emulated cluster, after a short calibration.

    python -m refimpl collectives simulate --check

A prediction is what the simulator says of the line, and the processor time of the ranks, which share this machine's
cores. The latter is fitted to short calls, before any longer call is measured:

    seconds = a call + max(line, messages of all ranks * a message + their bytes * a byte)

Before each call the cards rest until their token buckets are full, in the prediction and in the network. Without a
pause, a call would depend on the call before it.
"""

import statistics
import time
from dataclasses import replace
from itertools import product

import numpy as np

from refimpl.collectives.units import size_name
from refimpl.experiments import job
from refimpl.experiments.bench.timing import grouped

SIZES = [1 << 16, 1 << 18, 1 << 20, 1 << 22]
"""Bytes of the float32 vector."""
SHORT = [1 << 8, 1 << 15]
"""Bytes in the calls to which processor time is fitted, unless the line takes a part of the time, too."""
CLUSTERS = [(4, 1), (4, 2)]
"""(machines, ranks on each)."""
REPEATS = 5
REST = 0.05
"""Seconds of rest before a call, enough to fill the cards' buckets."""


def validate(clusters=CLUSTERS, sizes=SIZES) -> dict:
    """Return the comparison: rows of algorithm, ranks, machines, bytes, predicted and measured seconds, burst (of
    the calibrated network), costs, error; on cards of ``job.RATE``. Local.

    costs: seconds of processor time, for a call, a message and a byte.
    error: |predicted - measured| / measured.  Raises ValueError if there can be no cluster, or a job fails.
    """
    rows = [row for machines, each in clusters for row in job.measure(
        f"{__name__}:main", {"sizes": list(sizes)}, each, machines, timeout=300)]
    for row in rows:
        row["error"] = abs(row["predicted"] - row["measured"]) / row["measured"]
    return {"rate": job.RATE, "rows": rows, "median_error": statistics.median(row["error"] for row in rows)}


def describe(found: dict) -> str:
    """Return the comparison as lines of text. Local."""
    lines = [f"{'algorithm':20}{'machines':>9}{'ranks':>6}{'bytes':>12}{'predicted':>13}{'measured':>13}{'error':>8}"]
    lines += [f"{row['algorithm']:20}{row['machines']:9}{row['ranks']:6}{row['bytes']:12,}"
              f"{row['predicted'] * 1e3:10.2f} ms{row['measured'] * 1e3:10.2f} ms{row['error']:8.1%}"
              for row in found["rows"]]
    lines += [_spread(size_name(size), rows) for size, rows in grouped(found["rows"], "bytes").items()]
    lines.append(_spread("all sizes", found["rows"]))
    for (machines, ranks), row in {(row["machines"], row["ranks"]): row for row in found["rows"]}.items():
        call, message, byte = row["costs"]
        lines.append(f"as calibrated, {ranks} ranks on {machines} machines at {found['rate']}: bursts of "
                     f"{row['burst']:,.0f} bytes; processor time {call * 1e6:.0f} us a call, {message * 1e6:.1f} us a "
                     f"message, {byte * 1e9:.2f} ns a byte")
    return "\n".join(lines)


def _spread(what, rows) -> str:
    """Return the distribution of the errors as a line."""
    median, most_of_them, largest = np.quantile([row["error"] for row in rows], (0.5, 0.9, 1))
    return (f"{what}: {len(rows)} predictions; error {median:.1%} (median), {most_of_them:.1%} (90th percentile), "
            f"{largest:.1%} (largest)")


def main(comm, sizes) -> list[dict]:
    """Calibrate, then predict and measure every algorithm at every size; return the rows. Collective."""
    from refimpl.collectives import ALGORITHMS, make_schedule
    from refimpl.collectives.running.segments import segments_of
    from refimpl.collectives.simulation.calibrate import calibrate
    from refimpl.collectives.simulation.simulate import simulate

    network, schedules, rows = calibrate(comm), {}, []
    line = replace(network, latency=0.0, latency_within=0.0, overhead=0.0)  # these are processor time here
    for name in ALGORITHMS:
        topology = comm.machines if name == "hierarchical" else None
        try:
            schedules[name] = make_schedule(name, comm.size, comm.size, machines=topology)
        except ValueError:  # it does not work with this number of ranks
            continue

    def on_line(schedule, size):
        return simulate(schedule, line, size // 4, 4, segments_of(schedule, size // 4, 4)).seconds

    short = [(schedule, size, _measured(comm, schedule, size)) for schedule, size in product(schedules.values(), SHORT)]
    costs = fit([(_work(schedule, size), seconds) for schedule, size, seconds in short
                 if on_line(schedule, size) < seconds / 10])
    for (name, schedule), size in product(schedules.items(), sizes):
        call, *work = costs * _work(schedule, size, segments_of(schedule, size // 4, 4))
        rows.append({"algorithm": name, "machines": len(comm.machines), "ranks": comm.size, "bytes": size,
                     "predicted": float(call + max(sum(work), on_line(schedule, size))),
                     "measured": _measured(comm, schedule, size), "costs": costs.tolist(), "burst": network.burst})
    return rows


def fit(calls):
    """Return the costs, none below 0, with the least relative error. calls: (``_work``, seconds) of each. Local."""
    from scipy.optimize import nnls  # it takes its time to load

    work, seconds = (np.array(column, float) for column in zip(*calls))
    scale = work.max(axis=0)  # scaled columns have smaller rounding errors
    return nnls(work / scale / seconds[:, None], np.ones(len(seconds)))[0] / scale


def _work(schedule, size, segments=1):
    """Return [1, messages, bytes] of a call of all ranks."""
    bounds = schedule.bounds(size // 4)
    sent = [4 * (bounds[t.stop] - bounds[t.start]) for step in schedule.rounds for t in step.transfers]
    return np.array([1, segments * np.count_nonzero(sent), sum(sent)])


def _measured(comm, schedule, size) -> float:
    """Return the median seconds of a call, after rests. Collective."""
    from refimpl.collectives.running.runner import ScheduleRunner
    from refimpl.experiments.bench.timing import time_together

    vector, times = np.zeros(size // 4, np.float32), []
    runner = ScheduleRunner(schedule, comm, vector.size, vector, "validation", lambda start, stop: {})
    for _ in range(1 + REPEATS):
        time.sleep(REST)
        times.append(time_together(comm, lambda: runner([vector]), 1))
    return statistics.median(times[1:])  # the first connects
