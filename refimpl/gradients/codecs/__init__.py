"""Codecs: the encoding of a microbatch's gradient for messages, and the sum of two encoded gradients.

A codec encodes each leaf of the microbatch tree by itself, and adds the messages of two nodes. Neither depends on the
rank. So the result is the same on any number of ranks. The plain version: ``refimpl.plain.encoding.codecs``.
"""

from functools import lru_cache

from refimpl.gradients.codecs.adacomp import AdaComp
from refimpl.gradients.codecs.codec import Codec
from refimpl.gradients.codecs.dgc import DGC
from refimpl.gradients.codecs.integers import Integers
from refimpl.gradients.codecs.onebit import OneBit
from refimpl.gradients.codecs.powersgd import PowerSGD
from refimpl.gradients.codecs.qsgd import QSGD
from refimpl.gradients.codecs.rounded import Bf16, Fp16
from refimpl.gradients.codecs.terngrad import TernGrad
from refimpl.gradients.codecs.threshold import Threshold
from refimpl.gradients.codecs.topk import TopK

CODECS = {codec.name: codec for codec in (Codec, Bf16, Fp16, Integers, TopK, DGC, Threshold, AdaComp, OneBit, TernGrad,
                                          QSGD, PowerSGD)}
"""name -> class, in the order in which messages and help list them."""
IDENTITY = Codec.name


@lru_cache(maxsize=None)
def codec_of(text: str) -> Codec:
    """Return the codec for "name" or "name:parameter". Raises ValueError, which lists the valid ones. Local."""
    name, colon, parameter = text.partition(":")
    if name not in CODECS:
        raise ValueError(f"no codec {text[:60]!r}; there are {', '.join(c.form or c.name for c in CODECS.values())}")
    return CODECS[name].of(parameter) if colon else CODECS[name]()


__all__ = ["CODECS", "IDENTITY", "Codec", "codec_of"]
