"""Is a module's loss a sum over its examples, or their mean? Found with the first microbatch, told twice over."""

from typing import Callable

from torch.nn.modules.loss import _Loss

from models import Batch
from models.frameworks.mean import WORDS, is_mean

REMEDY = f'{WORDS}reduction="sum", or .sum() in place of .mean()'


def refuse_mean(total: Callable[[Batch], float], module, batch: Batch):
    """Raise ValueError if the loss is a mean over examples. Local.

    total: returns the loss of a batch, in evaluation mode.  Where no other number of examples can be told (bags by
    offset, states of a fixed size), loss modules with reduction="mean" are refused.
    """
    if (verdict := is_mean(total, batch)) is False:
        return
    if verdict:
        raise ValueError(REMEDY)
    for name, part in module.named_modules():
        if isinstance(part, _Loss) and part.reduction == "mean":
            raise ValueError(f"{name or type(part).__name__} has reduction={part.reduction!r}: {REMEDY}")
