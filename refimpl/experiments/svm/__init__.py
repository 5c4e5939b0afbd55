"""Support vector machines: savings by elimination, second order, a cache and blocks, beside those of Vishnu et al."""

from models.svm.solver import SvmOptions

PARTS = {"letter": (None, 6000, 10.0, 0.1), "fashion-mnist": ((2, 6), 4000, 10.0, 0.02),
         "breast_cancer": (None, None, 10.0, 0.03)}
"""Set of samples -> labels used, number of samples, C, γ."""
QUICK = 600
"""The number of samples with --quick."""
SIZES = (1, 4, 16, 64, 256, 1024, 4096)
RATE, LATENCY, MESSAGE = 10e9 / 8, 20e-6, 1e-6
"""The simulated network: bytes/s of a rank, seconds until a message arrives, a rank's own seconds for a message."""
HEAD = """# What need not be computed?

Vishnu et al. (arXiv 1406.5161) train support vector machines on many ranks, and leave out samples early that cannot
become support vectors. Their abstract says: up to 26 times as fast as a sequential baseline, and 30 to 60 % faster than
the parallel one without elimination. Here the same heuristics are counted, beside three other ways to compute less:
pairs by second order, a cache of kernel rows, and blocks of samples in a round.
"""
BASE = "first order, no elimination, two rows kept"
OURS = "blocks of 64"


def rules(count: int, c: float) -> dict[str, SvmOptions]:
    """Return the rules to compare: name -> options for ``count`` samples. BASE is first. Local."""
    periods = {"2": 2, "500": 500, "1,000": 1000,
               **{f"{part} % of the samples": max(count * part // 100, 1) for part in (5, 10, 50)}}
    first = {"c": c, "selection": "first", "cache": 1}
    found = {BASE: SvmOptions(**first, elimination="none")}
    for how in ("single", "multi"):
        found |= {f"{how}, every {name}": SvmOptions(**first, elimination=how, period=period)
                  for name, period in periods.items()}
    found["approximate, every 1,000"] = SvmOptions(**first, elimination="approximate", period=1000)
    second = {"c": c, "period": 1000}
    return found | {"second order, no elimination": SvmOptions(**second, elimination="none", cache=1),
                    "second order, multi, every 1,000": SvmOptions(**second, cache=1),
                    "second order, all rows kept": SvmOptions(**second, elimination="none", cache=1 << 30),
                    "second order, multi, all rows kept": SvmOptions(**second, cache=1 << 30),
                    OURS: SvmOptions(c=c, cache=1 << 30, block=64)}
