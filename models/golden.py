"""What a model brings for its golden trace: a tiny training, of few steps, with every edge that fits in.

Five microbatches: no power of two. The third step ends an epoch: microbatch 2 is short and 3 and 4 have no examples;
the fourth begins the next epoch. Some steps are clipped. Nothing random is left to the reader: nothing is dropped
out or augmented, and the candidates of a sampled softmax are inputs.
"""

from dataclasses import dataclass
from typing import Any, Callable

SEED, STEPS, MICROBATCHES = 7, 4, 5


@dataclass(frozen=True)
class Golden:
    """The training of a golden trace.

    make_model(dtype).  make_data(): the microbatches, and the same cut of the examples' numbers.
    options: of the trainer, beside seed and steps.
    about: JSON that describes the model to a reader in another language.
    """

    make_model: Callable[[str], Any]
    make_data: Callable[[], tuple[Any, Any]]
    options: dict
    about: dict
