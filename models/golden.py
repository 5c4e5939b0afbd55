"""The tiny training of a model's golden trace. It has few steps and as many edge cases as possible.

It has five microbatches, which is not a power of two. The third step ends an epoch: microbatch 2 is short, 3 and 4 have
no examples. The fourth step begins the next epoch. Some steps are clipped. A reader needs no random numbers: there is
no dropout and no augmentation, and the candidates of a sampled softmax are inputs.
"""

from dataclasses import dataclass
from typing import Any, Callable

SEED, STEPS, MICROBATCHES = 7, 4, 5


@dataclass(frozen=True)
class Golden:
    """The training of a golden trace.

    make_model(dtype).  make_data(): (the microbatches, microbatches with the numbers of the same examples).
    options: of the trainer, without seed and steps.
    about: JSON that describes the model, for a reader in another language.
    """

    make_model: Callable[[str], Any]
    make_data: Callable[[], tuple[Any, Any]]
    options: dict
    about: dict
