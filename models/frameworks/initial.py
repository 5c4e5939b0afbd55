"""Initial values from the arrays of a framework's model; and a digest of the arrays that are not trained."""

import hashlib
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class GivenValues:
    """The values of an array of the user's model at the beginning of a training.

    constants: see ``digest_of``. Ranks compare the descriptions of initial values. So they notice if their models
    differ in arrays that are not trained.
    array: a NumPy array, or a tensor of PyTorch, which is read when a training begins.
    """

    constants: str
    array: Any = field(repr=False, compare=False)

    def elements(self, key, start, count):
        """Return elements ``start`` to ``start + count - 1``: (count,), on the host. Local."""
        found = self.array.reshape(-1)[start:start + count]
        return found.numpy(force=True) if hasattr(found, "numpy") else found


def digest_of(constants) -> str:
    """Return the first digits of the SHA-256 of the arrays that a model does not train; "none" if it has none. Local.

    constants: ("name dtype shape", its bytes, or an array of them) of each, in the same order on all ranks.
    """
    digest, count = hashlib.sha256(), 0
    for count, (what, content) in enumerate(constants, 1):
        digest.update(f"{what}\n".encode())
        digest.update(content)
    return digest.hexdigest()[:16] if count else "none"
