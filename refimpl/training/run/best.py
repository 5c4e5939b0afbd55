"""The best checkpoint of a run, beside its newest ones: that with the lowest held-out loss, in the folder ``best``."""

import math
from pathlib import Path

from refimpl.training.run.checkpoint import save_checkpoint
from refimpl.training.run.directory import read_metrics

FOLDER = "best"


class Best:
    """The lowest held-out loss so far, and where its checkpoint is kept. Local to make; all ranks ``see`` alike.

    directory: None: nothing is kept.  loss: of a run that is resumed, the lowest before.
    """

    def __init__(self, directory: Path | None, loss: float = math.inf):
        self.directory, self.loss = directory, loss

    @classmethod
    def open(cls, trainer, output, wanted: bool, heldout, continues) -> "Best":
        """Return it, with what a run that is resumed has found before. Collective. continues(): whether it is one.

        Raises CollectiveError if it is wanted, and there are no held-out data, or no output.
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
