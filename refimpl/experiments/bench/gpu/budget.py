"""A lower bound of a training step's time on a GPU: a table of its work, computed from shapes. No GPU is needed.

The GPU's time for a line is the longest of: its operations at ``FLOPS``, its bytes at ``BYTES``, and ``LATENCY`` for
each of its launches. The host's time is that of the launches (``HOST``). The host runs ahead, so a step takes the
longer of both sums. The rates are those of a large GPU of 2023 (H100, float32 without TF32).
"""

from dataclasses import dataclass

FLOPS, BYTES = 50e12, 3.3e12  # a second
REST = 45  # launches of a step of the language model that are not listed
LATENCY = 2e-6  # the least seconds of a launch on the GPU
HOST = {"product": 12e-6, "kernel": 10e-6, "array": 7e-6, "transfer": 15e-6}
"""Seconds of the host for a launch: of cuBLAS, of our kernels, of CuPy's functions; for a copy over the bus."""


@dataclass(frozen=True)
class Load:
    """A line of the table. kind: of its launches (``HOST``).  flops, numbers: operations; float32 read and written."""

    name: str
    kind: str
    launches: int
    flops: float = 0
    numbers: float = 0

    @property
    def host(self) -> float:
        """Seconds of the host."""
        return self.launches * HOST[self.kind]

    @property
    def device(self) -> float:
        """Seconds of the GPU."""
        return max(self.flops / FLOPS, 4 * self.numbers / BYTES, self.launches * LATENCY)


def lm_budget(sizes: dict, shape: dict) -> list[Load]:
    """Return the work of a step of the language model with one layer and Adagrad, on one rank.

    sizes, shape: of a workload.  Launches are those that tests/device/test_launches.py counts.
    """
    embedding, hidden, projection, samples = (sizes[name] for name in ("embedding", "hidden", "projection", "samples"))
    time, n, gates = shape["window"], shape["window"] * shape["streams"], 4 * hidden
    dense = (embedding + projection + 1) * gates + hidden * projection
    scored = n + samples
    return [
        Load("inputs' products, all steps at once", "product", 1, 2 * n * embedding * gates, n * (embedding + gates)),
        Load("recurrent products forward", "product", time, 2 * n * projection * gates,
             time * projection * gates + 2 * n * gates),
        Load("cells forward", "kernel", time, 0, 12 * n * hidden),
        Load("projections forward", "product", time, 2 * n * hidden * projection, time * hidden * projection),
        Load("projections backward", "product", time, 2 * n * hidden * projection, time * hidden * projection),
        Load("cells backward", "kernel", time, 0, 14 * n * hidden),
        Load("recurrent products backward", "product", time - 1, 2 * n * projection * gates,
             time * projection * gates + n * gates),
        Load("gradients of weights and inputs", "product", 4,
             2 * n * (2 * embedding + projection) * gates + 2 * n * hidden * projection, 3 * n * gates),
        Load("gradient of the bias", "kernel", 2, 0, n * gates),
        Load("softmax: products", "product", 4, 3 * 2 * n * samples * projection, 4 * n * samples),
        Load("softmax: exponentials", "kernel", 2, 0, 3 * n * samples),
        Load("rows: gathered, added up, updated", "kernel", 14, 0, (4 * n * embedding + 8 * scored * projection)),
        Load("dense gradients: copied, checked, squared", "kernel", 7, 0, 4 * dense),
        Load("dense update", "kernel", 3, 0, 5 * dense),
        Load("all else", "array", REST, 0, 20 * n * projection),
    ]


def bounds(table: list[Load]) -> tuple[float, float]:
    """Return (seconds of the host, seconds of the GPU) of a step."""
    return sum(work.host for work in table), sum(work.device for work in table)
