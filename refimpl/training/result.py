"""The result of a training."""

from dataclasses import asdict, dataclass, field

from refimpl.plan.plan import SYNCHRONOUS


@dataclass
class Result:
    """The result of a training, the same on every rank except for ``rank``.

    bytes: phase -> bytes that rank 0 sent in all.  seconds: phase -> mean seconds of a step on rank 0.
    sent_per_step: kind -> bytes that a rank sent in a step, mean over ranks and steps (dense, rows, indices, control).
    alpha: sparse variable -> fraction of its rows that a rank touched in a step, mean over ranks and steps.
    loss: that of the last step.  evaluation: of the held-out data; {} without them.
    parameters_sha256: the hash of all parameters; state_sha256 is that of the optimizer's state.
    examples_per_second: since the start or the last resume, without evaluations, checkpoints and the steps of a
    partition search; NaN (None in JSON) if no step but the first was done.
    partition_search: its samples (also those before a resume), thetas and P, see ``PartitionTrials.to_json``.
    overlap: how exchanges overlapped with computation, see ``OverlapChoice``.
    shared_memory: whether all ranks share memory, in which they read the allreduce's bytes: counted, but not sent.
    staleness: of each owner, τ, as text -> the number of rows and dense variables pushed τ updates after their pull.
    """

    architecture: str
    ranks: int
    steps: int
    loss: float
    examples_per_second: float
    parameters_sha256: str
    state_sha256: str
    bytes: dict
    sent_per_step: dict
    seconds: dict
    alpha: dict = field(default_factory=dict)
    evaluation: dict = field(default_factory=dict)
    partition_search: dict | None = None
    overlap: str = "no"
    shared_memory: bool = False
    run_directory: str | None = None
    rank: int = 0
    consistency: str = SYNCHRONOUS
    staleness: list = field(default_factory=list)

    def to_json(self) -> dict:
        """Return plain data, with perplexity or accuracy."""
        data = asdict(self)
        evaluation, _ = data.pop("evaluation"), data.pop("rank")
        named = {"heldout_loss" if name == "loss" else "heldout_count" if name == "count" else name: value
                 for name, value in evaluation.items()}
        return {name: None if value != value else value for name, value in {**data, **named}.items()}  # NaN is no JSON
