"""The semantics manifest: what an implementation says that its sums, averages and updates mean.

Correct implementations differ here. The suite computes what it expects from the manifest, and says so when another
rule fits the numbers better.
"""

from dataclasses import asdict, dataclass
from typing import Any

from refimpl.json_file import shaped

FORMAT = 1

CHOICES = {
    "dense": {"sum": "dense gradients are summed over the ranks",
              "average": "dense gradients are averaged over the N ranks"},
    "sparse": {"sum": "row gradients are summed over the ranks",
               "average": "row gradients are divided by N, the number of ranks",
               "per-row-count": "each row is divided by its push count, the number of ranks that touched it",
               "per-occurrence": "each row is divided by the number of its occurrences on all ranks"},
    "divide": {"after": "the sum is divided",
               "before": "each contribution is divided before they are added"},
    "order": {"any": "sums may be formed in any order",
              "tree": "sums are nodes of one balanced binary tree over the ranks: one answer, to the bit"},
    "rows_on": {"every": "every rank gets all aggregated rows",
                "owner": "each aggregated row is on exactly one rank"},
    "duplicates": {"add": "rows that share an id are added",
                   "last": "of rows that share an id on a rank, the last one counts"},
    "id_dtype": {"int64": "row numbers are 64-bit integers all the way",
                 "int32": "row numbers are 32-bit integers: rows from 2^31 on are not supported"},
    "loss": {"global-mean": "the loss is the mean over all examples of all ranks",
             "mean-of-means": "the loss is the mean of the ranks' losses, which are means over their own examples; "
                              "a rank without examples counts as 0",
             "sum": "the loss is the sum over all examples of all ranks"},
    "loss_dtype": {"float64": "the loss and its gradient are float64, as the losses given",
                   "float32": "the loss and its gradient are float32"},
    "untouched": {"kept": "an update does not change rows that no rank touched, nor their optimizer state",
                  "decayed": "an update changes every row; a row that no rank touched has the gradient 0",
                  "decayed-by-momentum": "with momentum an update changes every row, with other optimizers only rows "
                                         "that a rank touched"},
    "adam": {"corrected": "Adam adds epsilon to the corrected root, as the paper's algorithm does",
             "hat": "Adam adds epsilon to the root before its correction, as TensorFlow does",
             "hat-rows": "Adam adds epsilon to the root before its correction for rows alone, as PyTorch's SparseAdam "
                         "does"},
    "adagrad": {"outside": "Adagrad adds epsilon to the root, as PyTorch does",
                "inside": "Adagrad adds epsilon to the sum of squares, inside the root, as optax and Keras do"},
    "clip_point": {"after": "the aggregated gradient is clipped",
                   "before": "each rank clips its own gradient before the gradients are aggregated"},
    "clip_norm": {"all": "the norm is that of dense and row gradients together, after rows that share an id are added",
                  "dense": "the norm is that of dense gradients alone, and only they are clipped",
                  "dense-scales-all": "the norm is that of dense gradients alone, and all gradients are clipped by it",
                  "occurrences": "the norm is that of dense and row gradients together, and each occurrence of an id "
                                 "counts by itself"},
    "window": {"sum": "the gradients of an accumulation window are summed",
               "average": "the gradients of an accumulation window are averaged"},
    "partial": {"applied": "a last window of fewer micro-steps is applied; if windows are averaged, it is divided by "
                           "its own number of micro-steps",
                "applied-by-window": "a last window of fewer micro-steps is applied; if windows are averaged, it is "
                                     "divided by the number of micro-steps of a full window",
                "dropped": "a last window of fewer micro-steps is dropped"},
    "start": {"rank 0": "training starts from rank 0's values, whatever the others hold",
              "same": "every rank must start from the same values"},
    "sampler": {"exact": "each example is seen exactly once in an epoch",
                "pads": "ranks get equally many examples: some are repeated",
                "drops": "ranks get equally many examples: the tail is left out"},
    "nonfinite": {"pass": "inf and NaN reach every rank",
                  "refuse": "a sum that is not finite is refused on every rank"},
}
"""field -> {value: what it means}: the manifest's whole vocabulary."""

SUPPORTS = ("clip", "loss-scale", "momentum", "adagrad", "adam", "rate-factor", "nesterov", "dampened", "adamw",
            "weight-decay", "row-decay", "bounded", "softsync", "backup", "staleness-aware", "dc-asgd",
            "dc-asgd-adaptive", "row-keys", "versions", "model-parallel", "absent", "bf16", "fp16", "integers", "topk",
            "dgc", "threshold", "adacomp", "onebit", "qsgd", "terngrad", "powersgd")
"""What an adapter may be able to do beside the functions that it has. weight-decay: of dense variables; row-decay: of
rows.  row-keys: its owner keeps rows by number, however large it is, not in one array.  versions: its owner's answers
say how many updates they contain.  model-parallel: groups of more than one member share layers.  absent: a rank may
have no gradient of a variable in a step.  bf16 to powersgd: its codecs."""
DTYPES = ("float16", "float32", "float64")


@dataclass(frozen=True)
class Semantics:
    """One implementation's manifest; each field but the last five takes a value of CHOICES.

    dtypes: of gradients.  supports: see SUPPORTS.  fusion_bytes: most bytes in one fused message, None: not fused.
    most_rows: largest number of rows of a variable that the adapter can take, None: any.
    """

    name: str = "unnamed"
    dense: str = "average"
    sparse: str = "average"
    divide: str = "after"
    order: str = "any"
    rows_on: str = "every"
    duplicates: str = "add"
    id_dtype: str = "int64"
    loss: str = "global-mean"
    loss_dtype: str = "float64"
    untouched: str = "kept"
    adam: str = "corrected"
    adagrad: str = "outside"
    clip_point: str = "after"
    clip_norm: str = "all"
    window: str = "average"
    partial: str = "applied"
    start: str = "same"
    sampler: str = "exact"
    nonfinite: str = "pass"
    dtypes: tuple[str, ...] = ("float32", "float64")
    supports: tuple[str, ...] = ("clip", "momentum", "adagrad", "adam")
    fusion_bytes: int | None = None
    most_rows: int | None = None

    def __post_init__(self):
        for field, values in CHOICES.items():
            if getattr(self, field) not in values:
                raise ValueError(f"manifest: {field} is {getattr(self, field)!r}; it may be {', '.join(values)}")
        for field, values in (("dtypes", DTYPES), ("supports", SUPPORTS)):
            unknown = [value for value in getattr(self, field) if value not in values]
            if unknown:
                raise ValueError(f"manifest: {field} has {', '.join(map(repr, unknown))}; there are "
                                 f"{', '.join(values)}")

    def to_json(self) -> dict:
        """Return plain data, the format's version with it."""
        return {"format": FORMAT, **asdict(self)}

    @classmethod
    def from_json(cls, data: dict) -> "Semantics":
        """Read a manifest. Raises ValueError for another version, an unknown field, or a value that it cannot have."""
        try:
            data = dict(shaped(data, dict[str, Any]))
            if (version := data.pop("format", None)) != FORMAT:
                raise ValueError(f"format {str(version)[:20]}: this version reads format {FORMAT}")
            return shaped(data, cls)
        except ValueError as problem:
            raise ValueError(f"manifest: {str(problem).removeprefix('manifest: ')}") from problem

    def updates_every_row(self, optimizer: str) -> bool:
        """Return whether an optimizer updates rows that no rank touched, with gradient 0."""
        return self.untouched == "decayed" or (self.untouched == "decayed-by-momentum" and
                                                 optimizer in ("momentum", "nesterov", "dampened"))

    def formula(self, optimizer: str, sparse: bool) -> str:
        """Return which of ``refimpl.plain.updating.optimizers`` updates a variable."""
        hat = self.adam == "hat" or self.adam == "hat-rows" and sparse
        return {"adam": "adam-hat" if hat else "adam", "adagrad": "adagrad-inside" if self.adagrad == "inside" else
                "adagrad"}.get(optimizer, optimizer)


def page() -> str:
    """Return the manifest's vocabulary as text: one line a value."""
    return "\n".join(f"{field:12}{value:20}{meaning}" for field, values in CHOICES.items()
                     for value, meaning in values.items())
