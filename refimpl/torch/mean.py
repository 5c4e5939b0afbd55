"""Find whether a module's loss is a sum or a mean over examples, with the first microbatch and its repetition."""

from typing import Callable

from torch.nn.modules.loss import _Loss

from models import Batch
from models.frameworks.mean import WORDS, is_mean

REMEDY = f'{WORDS}reduction="sum", or .sum() in place of .mean()'


def refuse_mean(total: Callable[[Batch], float], module, batch: Batch):
    """Raise ValueError if the loss is a mean over examples. Local.

    total: returns the loss of a batch, in evaluation mode.  If the number of examples cannot be changed (bags by
    offset, states of a fixed size), loss modules with reduction="mean" are refused.
    """
    if (verdict := is_mean(total, batch)) is False:
        return
    if verdict:
        raise ValueError(REMEDY)
    for name, part in module.named_modules():
        if isinstance(part, _Loss) and part.reduction == "mean":
            raise ValueError(f"{name or type(part).__name__} has reduction={part.reduction!r}: {REMEDY}")
