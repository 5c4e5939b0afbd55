"""What a codec leaves out is not lost: it is added to the next gradient.

    error feedback      v = g + e       send C(v)  e = v - C(v)
    DGC                 u = m u + g     v += u     send v at the largest |v|     u = v = 0 there

A residual belongs to (variable, unit), and a unit is a microbatch. So the answer does not depend on the number of
ranks, and a checkpoint with residuals can be resumed on another number of ranks. If a residual belonged to a rank,
both would be wrong.

DGC (deep gradient compression) applies momentum before it decides what to send. Otherwise elements that are sent late
would have no momentum. It clips the gradient of each unit to the norm clip_norm / √units (``clipped``).
In the first steps it sends more elements (``dgc_ratio``).

    python -m refimpl.plain.encoding.residuals
"""

import hashlib

import numpy as np

from refimpl.plain.adding.tree import sum_on
from refimpl.plain.encoding.sparse_codecs import TopK


def dgc_ratio(ratio, step, stage):
    """Return the part of the elements that DGC sends in a step: 1/4, 1/16, 1/64, …, each for ``stage`` steps, down to
    ``ratio``; without a warm-up (stage 0) always ``ratio``."""
    return max(ratio, 0.25 ** (1 + step // stage)) if stage else ratio


class Residuals:
    """Error feedback. kept: (variable, unit) -> (n,) float32, what was left out so far."""

    def __init__(self):
        self.kept = {}

    def encode(self, codec, name, unit, gradient, drawn=None):
        """Return the message of a unit's gradient and of what it had kept; keep what this message leaves out."""
        residual = self.kept.get((name, unit), np.zeros_like(gradient))
        message = codec.encode(gradient, residual, drawn)
        if codec.feedback:
            self.kept[name, unit] = gradient + residual - codec.decode(message)
        return message


class MomentumCorrection:
    """DGC's state. velocity, kept: (variable, unit) -> (n,) float32, u and v above."""

    def __init__(self, momentum=0.9):
        self.momentum = np.float32(momentum)
        self.velocity, self.kept = {}, {}

    def encode(self, codec, name, unit, gradient):
        """Return the message of a unit's gradient. codec: a TopK, whose k may differ from step to step."""
        at, nothing = (name, unit), np.zeros_like(gradient)
        u = self.momentum * self.velocity.get(at, nothing) + gradient
        v = self.kept.get(at, nothing) + u
        message = codec.encode(v, nothing, None)
        u[message[0]] = v[message[0]] = 0  # sent: their momentum must not push them once more
        self.velocity[at], self.kept[at] = u, v
        return message


def clipped(gradient, clip_norm, units):
    """Return a unit's gradient, clipped to the norm clip_norm / √units: independent ones add up to about clip_norm."""
    norm, most = np.sqrt(np.sum(gradient.astype(np.float64) ** 2)), clip_norm / np.sqrt(units)
    return gradient * np.float32(most / norm) if norm > most else gradient


def main():
    """Descend to a target with 5 of 100 elements sent: with feedback x reaches the target, without it x does not."""
    target = np.random.default_rng(0).standard_normal(100).astype(np.float32)
    for how in ("feedback", "nothing kept", "DGC"):
        digests = set()
        for ranks in (1, 3, 8):
            x, codec, residuals, dgc = np.zeros(100, np.float32), TopK(100, 5), Residuals(), MomentumCorrection(0.5)
            for step in range(200):
                gradients = [(x - target) * np.float32(1 + unit / 8) for unit in range(8)]
                if how == "nothing kept":
                    residuals = Residuals()
                messages = [dgc.encode(codec, "x", unit, clipped(g, 100.0, 8)) if how == "DGC" else
                            residuals.encode(codec, "x", unit, g) for unit, g in enumerate(gradients)]
                x -= np.float32(0.005) * codec.decode(sum_on(ranks, messages, codec.merge))
            digests.add(hashlib.sha256(x.tobytes()).hexdigest()[:8])
        [digest] = digests
        distance = np.linalg.norm(x - target) / np.linalg.norm(target)
        print(f"{how:12} distance {distance:.4f}, on 1, 3 and 8 ranks {digest}")


if __name__ == "__main__":
    main()
