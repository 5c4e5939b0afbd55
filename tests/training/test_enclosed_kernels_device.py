"""Deep networks and long windows, whose enclosures as a whole have no end: each kernel's call lies in that of its own.

During a training on a device (CuPy's stand-in, or a GPU where there is one) every call of a kernel is repeated on
enclosures of the very operands that it got.
"""

import numpy as np
import pytest
from mpi4py import MPI
from toys import make_trainer

import models.cnn.batch_norm
import models.vision.convolution
import models.lm.layers
import models.sampled_softmax
from kernels import to_numpy
from refimpl.enclosure import Enclosure

WIDEST = 3e-3
"""Largest radius of a result as a part of its largest value: a kernel's own, that nothing has grown yet."""

KERNELS = [(models.vision.convolution, "convolve"), (models.vision.convolution, "convolve_backward"),
           (models.cnn.batch_norm, "channel_statistics"), (models.cnn.batch_norm, "normalize"),
           (models.cnn.batch_norm, "normalize_backward"), (models.lm.layers, "lstm_forward"),
           (models.lm.layers, "lstm_backward"), (models.sampled_softmax, "exponentials")]


class Repeating:
    """Kernels that repeat each of their calls on enclosures. wrong: name -> factor, by which results are spoilt.

    Then only the wrong kernel, and the one that makes its tape, repeat theirs.
    """

    def __init__(self, patch, cupy, wrong=()):
        self.cupy, self.wrong, self.tapes, self.calls = cupy, dict(wrong), {}, []
        for module, name in KERNELS:
            if not wrong or name in wrong or name == "lstm_forward":
                patch.setattr(module, name, self.repeated(name, getattr(module, name)))

    def point(self, value):
        """Return an enclosure of a device array as it is now; of a tape, the one that belongs to it."""
        if isinstance(value, self.cupy.ndarray):
            return Enclosure.exact(to_numpy(value)) if value.dtype.kind == "f" else to_numpy(value)
        return self.tapes.get(id(value), (value,))[0]

    def repeated(self, name, kernel):
        def call(*arguments, **options):
            if name.startswith("lstm"):
                arguments = arguments[:6]  # no workspace: tapes stay as they are
            points = [self.point(a) for a in arguments]
            enclosed, found = kernel(*points, **options), kernel(*arguments, **options)
            if name == "lstm_forward":
                (h, tape), (found_h, found_tape) = enclosed, found
                self.tapes[id(found_tape)] = tape, found_tape
                pairs = [(h, found_h), *zip(tape.last_state(), found_tape.last_state(), strict=True)]
            elif name == "exponentials":  # in place
                pairs = [(enclosed, found), (points[0], arguments[0]), (points[2], arguments[2])]
            else:
                pairs = zip(enclosed, found, strict=True) if isinstance(found, tuple) else [(enclosed, found)]
            for ball, value in pairs:
                if value is not None:
                    self.check(name, ball, to_numpy(value) * np.float32(self.wrong.get(name, 1)))
            return found

        return call

    def check(self, name, ball, value):
        assert (np.abs(value.astype(float) - ball.middle) <= ball.radius).all(), f"{name} {value.shape} lies outside"
        if value.size:
            assert ball.radius.max() <= WIDEST * max(np.abs(ball.middle).max(), 1e-3), name
        self.calls.append(name)


WORKS = [("lm", "adagrad", {"lstm_forward", "lstm_backward", "exponentials"}),
         ("cnn", "momentum",
          {"convolve", "convolve_backward", "channel_statistics", "normalize", "normalize_backward"})]


@pytest.mark.parametrize("work, optimizer, kernels", WORKS)
def test_each_kernel_lies_in_the_enclosure_of_its_operands(cupy, monkeypatch, work, optimizer, kernels):
    repeating = Repeating(monkeypatch, cupy)
    trainer = make_trainer(work, optimizer, MPI.COMM_SELF, device="cuda")
    for _ in range(2):
        trainer.train_step()
    assert set(repeating.calls) == kernels


@pytest.mark.parametrize("work, optimizer, name", [(work, optimizer, name) for work, optimizer, kernels in WORKS
                                                   for name in sorted(kernels)])
def test_a_kernel_that_is_a_little_wrong_is_seen(cupy, monkeypatch, work, optimizer, name):
    Repeating(monkeypatch, cupy, {name: 1 + WIDEST})
    trainer = make_trainer(work, optimizer, MPI.COMM_SELF, device="cuda")
    with pytest.raises(Exception, match=f"{name} .* lies outside"):
        trainer.train_step()
