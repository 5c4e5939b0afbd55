"""Codecs: how the gradient of a microbatch is encoded for the way, and what the sum of two encoded ones is.

A codec belongs to the microbatch tree, not to a rank: each leaf is encoded by itself, and whoever adds two nodes up
merges them as the codec says. So the answer is the same on any number of ranks. Plainly: ``refimpl.plain.codecs``.
"""

from functools import lru_cache

from refimpl.gradients.codecs.codec import Codec
from refimpl.gradients.codecs.integers import Integers
from refimpl.gradients.codecs.rounded import Bf16, Fp16
from refimpl.gradients.codecs.topk import TopK

CODECS = {codec.name: codec for codec in (Codec, Bf16, Fp16, Integers, TopK)}
"""name -> class, in the order in which they are listed for people."""
IDENTITY = Codec.name


@lru_cache(maxsize=None)
def codec_of(text: str) -> Codec:
    """Return the codec of a name, and of a parameter behind a colon. Raises ValueError, with what fits. Local."""
    name, colon, parameter = text.partition(":")
    if name not in CODECS:
        raise ValueError(f"no codec {text[:60]!r}; there are {', '.join(c.form or c.name for c in CODECS.values())}")
    return CODECS[name].of(parameter) if colon else CODECS[name]()


__all__ = ["CODECS", "IDENTITY", "Codec", "codec_of"]
