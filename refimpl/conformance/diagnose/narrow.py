"""Contributions that lose digits before they are added: compressed on the communicator."""

import numpy as np

from refimpl.conformance.case import with_numbers
from refimpl.conformance.diagnose.diagnosis import Diagnosis, explains, failing, names_in_words, with_changes


def _brain(array, add):
    bits = np.ascontiguousarray(array, np.float32).view(np.uint32)
    nearest = np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1)) if add else np.uint32(0)
    return ((bits + nearest) & np.uint32(0xFFFF0000)).view(np.float32).reshape(array.shape).astype(array.dtype)


NARROW = {"float16": lambda a: a.astype(np.float16).astype(a.dtype), "bfloat16": lambda a: _brain(a, True),
          "bfloat16, cut off": lambda a: _brain(a, False), "float32": lambda a: a.astype(np.float32).astype(a.dtype)}


def narrowed(evidence, verdict):
    """Each contribution is rounded to a narrower dtype, then they are added in the variable's own."""
    if evidence.case.kind not in ("dense", "rows", "mixed") or "nonfinite" in evidence.case.settings:
        return None
    for dtype, cast in NARROW.items():
        if explains(evidence, with_changes(evidence, lambda s, r, n, part: with_numbers(part, cast), loose=True)):
            return Diagnosis("lost-digits", f"each rank's numbers pass through {dtype} before they are added",
                             names_in_words(failing(evidence)))
    return None
