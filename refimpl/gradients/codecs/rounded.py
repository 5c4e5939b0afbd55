"""Equals ``plain.encoding.codecs.Rounded``: half the bits of each element, rounded at every node. 2 n bytes.

    leaf     round(g)          node     round(left + right)          nearest, ties to even; no residual

The bits depend on the order of the sum, so the allreduce must add in the reproducible order. A ring does not.
"""

from dataclasses import dataclass

import numpy as np

from kernels import RowGradient, half, merge_rows
from refimpl.gradients.codecs.codec import Codec


@dataclass(frozen=True)
class Rounded(Codec):
    """The base class of bf16 and fp16: elements of 16 bits (``kernels.half``)."""

    by_tree, effort = True, 0.7

    def check(self, variable, microbatches):
        if variable.dtype != "float32":
            raise ValueError(f"{self.name} rounds float32, and {variable.name!r} is {variable.dtype}: train with "
                             "--dtype float32, or name no codec for it")
        if variable.statistic:
            raise ValueError(f"{variable.name!r} is a buffer (statistic=True) without gradient: name no codec for it")

    def encode(self, gradient):
        message = np.empty(gradient.shape, self.dtype)
        half.encode(gradient, message)
        return message

    def decode(self, message, out=None):
        out = np.empty(message.shape, np.float32) if out is None else out
        half.decode(message, out)
        return out

    def encode_each(self, messages, gradients):
        for message, gradient in zip(messages, gradients, strict=True):
            if gradient.dtype == message.dtype:
                message[...] = gradient
            else:
                half.encode(gradient, message)

    def merge_each(self, messages, others):
        for message, other in zip(messages, others, strict=True):
            half.add(message, other)

    def merge(self, into, other):
        half.add(into, other)
        return into

    def merge_rows(self, left, right):
        both = merge_rows(*(RowGradient(g.ids, self.decode(g.rows)) for g in (left, right)))
        return RowGradient(both.ids, self.encode(both.rows))


@dataclass(frozen=True)
class Bf16(Rounded):
    """float32's range, 8 bits of precision."""

    name, dtype = "bf16", "uint16"


@dataclass(frozen=True)
class Fp16(Rounded):
    """11 bits of precision. Numbers above 65504 become infinity, and the training stops with an error."""

    name, dtype = "fp16", "float16"
