"""Make computations in PyTorch reproducible: fix random numbers, threads, and the choice of algorithms."""

import random
from contextlib import contextmanager

import numpy as np
import torch
from torch.utils import deterministic

from models.frameworks.place import line_of

CPU = torch.device("cpu")
NUMPYS = np.random.MT19937()
"""The bit generator of ``np.random`` within these contexts."""


@contextmanager
def repeatable(key: int, device):
    """A context as ``drawing_from(key)``, with one thread and deterministic algorithms; it restores them. Local.

    Raises ValueError, with a remedy, for errors of PyTorch that a user can fix: see ``_explained``.
    """
    threads, fill = torch.get_num_threads(), deterministic.fill_uninitialized_memory
    were = torch.are_deterministic_algorithms_enabled()
    only_warned = torch.is_deterministic_algorithms_warn_only_enabled()
    with drawing_from(key, device):
        try:
            if threads != 1:
                torch.set_num_threads(1)
            torch.use_deterministic_algorithms(True)
            deterministic.fill_uninitialized_memory = False
            yield
        except (RuntimeError, ValueError) as problem:
            if (words := _explained(problem)) is None:
                raise
            raise ValueError(words) from problem
        finally:
            if threads != 1:
                torch.set_num_threads(threads)
            torch.use_deterministic_algorithms(were, warn_only=only_warned)
            deterministic.fill_uninitialized_memory = fill


@contextmanager
def drawing_from(key: int, device=CPU):
    """A context in which all global random numbers are seeded by ``seed``; it restores their state. Local."""
    with torch.random.fork_rng([torch.cuda.current_device()] if device.type == "cuda" else []):
        numpys, pythons = np.random.get_bit_generator(), random.getstate()
        np.random.set_bit_generator(NUMPYS)  # copying its 624 words would take as long as a small forward pass
        seed(key, device)
        try:
            yield
        finally:
            np.random.set_bit_generator(numpys)
            random.setstate(pythons)


def seed(key: int, device=CPU):
    """Seed the global random numbers of PyTorch, NumPy (``np.random``) and Python (``random``). Local.

    If no other device is used, only the CPU's generator of PyTorch is seeded: the others take a thousand times longer.
    """
    (torch if device.type == "cuda" else torch.default_generator).manual_seed(key)
    np.random.seed(key % 2**32)  # it accepts only 32 bits
    random.seed(key)


def _explained(problem: Exception) -> str | None:
    """Return an explanation with a remedy for an error of PyTorch; None if it is another problem."""
    text, place = str(problem), line_of(problem, torch)
    if "deterministic implementation" in text:
        return (f"{text.partition(',')[0]}, at {place}: its bits would depend on the order in which threads "
                "come; use another operation in its place, or compute with --device cpu")
    if "leaf Variable" in text and "in-place" in text:
        return (f"a parameter is changed in place in the forward pass, at {place}: values are the "
                "training's, the optimizer alone changes them; compute with a changed copy")
    if "more than 1 value per channel" in text:
        return (f"{text}: a microbatch of one example has no variance, at {place}; let no microbatch have so few "
                "(drop_last=True where the last batch of an epoch does, or another size)")
    return None
