"""Simulated against measured: algorithms x sizes on an emulated cluster, predicted from its own short calibration.

    python -m refimpl collectives simulate --check

Vectors of 64 KiB run faster than predicted, by half and more. Probably the cards' token buckets: they let 128 kB that
they saved up while idle through at once, which the model does not know (not shown by a measurement of its own).
"""

import json
import statistics
import sys

SIZES = [1 << 16, 1 << 18, 1 << 20, 1 << 22]
"""Bytes of the float32 vector."""
CLUSTERS = [(4, 1), (4, 2)]
"""(machines, ranks on each)."""
RATE = "200mbit"
REPEATS = 3


def validate(clusters=CLUSTERS, sizes=SIZES, rate: str = RATE) -> dict:
    """Return the comparison: rows of algorithm, ranks, machines, bytes, predicted and measured seconds, error. Local.

    error: |predicted - measured| / measured.  Raises ValueError where there can be no cluster, or a job fails.
    """
    from refimpl.experiments.cluster import ClusterError, run_on_cluster

    rows = []
    for machines, each in clusters:
        arguments = ["-m", "refimpl.experiments.validate_simulation", json.dumps(list(sizes))]
        try:
            job = run_on_cluster(machines, each, rate, arguments, timeout=300, capture=True)
        except ClusterError as error:
            raise ValueError(str(error)) from error
        if job.returncode:
            raise ValueError(f"measuring on {machines} machines ended with status {job.returncode}: {job.stderr}")
        rows += json.loads(job.stdout)
    for row in rows:
        row["error"] = abs(row["predicted"] - row["measured"]) / row["measured"]
    return {"rate": rate, "rows": rows, "median_error": statistics.median(row["error"] for row in rows)}


def describe(found: dict) -> str:
    """Return the comparison as lines of text. Local."""
    lines = [f"{'algorithm':20}{'machines':>9}{'ranks':>6}{'bytes':>12}{'predicted':>13}{'measured':>13}{'error':>8}"]
    lines += [f"{row['algorithm']:20}{row['machines']:9}{row['ranks']:6}{row['bytes']:12,}"
              f"{row['predicted'] * 1e3:10.2f} ms{row['measured'] * 1e3:10.2f} ms{row['error']:8.1%}"
              for row in found["rows"]]
    lines.append(f"median error {found['median_error']:.1%} over {len(found['rows'])} times at {found['rate']}")
    return "\n".join(lines)


def main(sizes) -> None:
    """Calibrate, then predict and measure every algorithm at every size; rank 0 prints JSON. Collective."""
    import numpy as np

    from refimpl.collectives import ALGORITHMS, Wire, make_schedule
    from refimpl.collectives.calibrate import calibrate
    from refimpl.collectives.run import Runner
    from refimpl.collectives.segments import segments_of
    from refimpl.collectives.simulate import simulate
    from refimpl.experiments.bench.together import seconds_of

    wire = Wire()
    network, rows = calibrate(wire), []
    for name in ALGORITHMS:
        topology = wire.machines if name == "hierarchical" else None
        schedule = make_schedule(name, wire.size, wire.size, machines=topology)
        for size in sizes:
            vector = np.zeros(size // 4, np.float32)
            runner = Runner(schedule, wire, vector.size, vector, "validation", lambda start, stop: {})
            measured = statistics.median(seconds_of(wire.comm, lambda: runner([vector])) for _ in range(REPEATS + 1))
            predicted = simulate(schedule, network, vector.size, 4, segments_of(schedule, vector.size, 4)).seconds
            rows.append({"algorithm": name, "machines": len(wire.machines), "ranks": wire.size, "bytes": size,
                         "predicted": predicted, "measured": measured})
    if wire.rank == 0:
        print(json.dumps(rows), flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
