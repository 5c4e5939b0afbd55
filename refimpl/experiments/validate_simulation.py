"""Compare simulated with measured seconds: algorithms x sizes on an emulated cluster, after a short calibration.

    python -m refimpl collectives simulate --check

Before each call the cards rest until their token buckets are full, in the prediction and in the network. Without a
pause, a call would depend on the call before it.
"""

import os
import statistics
import time

import numpy as np

from refimpl.collectives.units import size_name
from refimpl.experiments import job
from refimpl.experiments.bench.timing import grouped

SIZES = [1 << 16, 1 << 18, 1 << 20, 1 << 22]
"""Bytes of the float32 vector."""
CLUSTERS = [(4, 1), (4, 2)]
"""(machines, ranks on each)."""
REPEATS = 5
REST = 0.05
"""Seconds of rest before a call, enough to fill the cards' buckets."""


def validate(clusters=CLUSTERS, sizes=SIZES) -> dict:
    """Return the comparison: rows of algorithm, ranks, machines, bytes, predicted and measured seconds, burst (of
    the calibrated network), error; on cards of ``job.RATE``. Local.

    computed: processor time of all ranks in a call, divided by the cores.
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
    bursts = sorted({row["burst"] for row in found["rows"]})
    lines += [_spread("all sizes", found["rows"]), f"at {found['rate']}; bursts as calibrated: "
              f"{', '.join(f'{burst:,.0f}' for burst in bursts)} bytes"]
    return "\n".join(lines)


def _spread(what, rows) -> str:
    """Return the distribution of the errors as a line."""
    median, most_of_them, largest = np.quantile([row["error"] for row in rows], (0.5, 0.9, 1))
    computed = statistics.median(row["computed"] / row["measured"] for row in rows)
    return (f"{what}: {len(rows)} predictions; error {median:.1%} (median), {most_of_them:.1%} (90th percentile), "
            f"{largest:.1%} (largest); computed {computed:.0%} of the time (median)")


def main(comm, sizes) -> list[dict]:
    """Calibrate, then predict and measure every algorithm at every size; return the rows. Collective."""
    from refimpl.collectives import ALGORITHMS, make_schedule
    from refimpl.collectives.running.runner import ScheduleRunner
    from refimpl.collectives.running.segments import segments_of
    from refimpl.collectives.simulation.calibrate import calibrate
    from refimpl.collectives.simulation.simulate import simulate
    from refimpl.experiments.bench.timing import time_together

    network, rows = calibrate(comm), []
    for name in ALGORITHMS:
        topology = comm.machines if name == "hierarchical" else None
        try:
            schedule = make_schedule(name, comm.size, comm.size, machines=topology)
        except ValueError:  # it does not work with this number of ranks
            continue
        for size in sizes:
            vector = np.zeros(size // 4, np.float32)
            runner = ScheduleRunner(schedule, comm, vector.size, vector, "validation", lambda start, stop: {})
            times, computed = [], []

            def call():
                begin = time.process_time()
                runner([vector])
                computed.append(time.process_time() - begin)

            for _ in range(1 + REPEATS):
                time.sleep(REST)
                times.append(time_together(comm, call, 1))
            spent = comm.gather_numbers(computed[1:], "a validation").sum(axis=0) / len(os.sched_getaffinity(0))
            predicted = simulate(schedule, network, vector.size, 4, segments_of(schedule, vector.size, 4)).seconds
            rows.append({"algorithm": name, "machines": len(comm.machines), "ranks": comm.size, "bytes": size,
                         "predicted": predicted, "measured": statistics.median(times[1:]),  # the first connects
                         "computed": float(np.median(spent)), "burst": network.burst})
    return rows
