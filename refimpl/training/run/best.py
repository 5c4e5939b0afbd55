"""The best checkpoint of a run, in the folder ``best``: the one with the lowest held-out loss."""

import math
from pathlib import Path

from refimpl.training.run.checkpoint import save_checkpoint
from refimpl.training.run.directory import read_metrics

FOLDER = "best"


class Best:
    """The lowest held-out loss so far, and its checkpoint. The constructor is local; all ranks call ``see`` together.

    directory: None: no checkpoint is kept.  loss: the lowest before, in a resumed run.
    """

    def __init__(self, directory: Path | None, loss: float = math.inf):
        self.directory, self.loss = directory, loss

    @classmethod
    def open(cls, trainer, output, wanted: bool, heldout, continues) -> "Best":
        """Return a Best, with the earlier best of a resumed run. continues(): whether the run is resumed. Collective.

        Raises CollectiveError if it is wanted, but there are no held-out data or no output.
        """
        if not wanted:
            return cls(None)

        def check():
            if output is None or heldout is None:
                raise ValueError("keep_best keeps the checkpoint with the lowest held-out loss: give held-out data, "
                                 "output and evaluate_every")

        trainer.comm.together(check, (ValueError,))
        output = Path(output)

        def found():
            return repr(min((line["heldout"]["loss"] for line in read_metrics(output)
                             if "heldout" in line and line["step"] <= trainer.step), default=math.inf))

        return cls(output / FOLDER, float(trainer.comm.once(found)) if continues() else math.inf)

    def see(self, trainer, loss: float, describe: dict):
        """Save a checkpoint if this held-out loss is the lowest. Collective."""
        if self.directory is None or not loss < self.loss:
            return
        self.loss = loss
        trainer.comm.together(lambda: trainer.comm.rank or self.directory.mkdir(exist_ok=True), (OSError,))
        save_checkpoint(trainer, self.directory, describe, keep=1)
