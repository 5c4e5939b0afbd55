"""What else the bits of a computation in PyTorch depend on: random numbers, threads, the choice of algorithms."""

import random
from contextlib import contextmanager

import numpy as np
import torch
from torch.utils import deterministic

from models.frameworks.place import line_of

CPU = torch.device("cpu")
NUMPYS = np.random.MT19937()
"""What ``np.random`` draws from here, in place of its own."""


@contextmanager
def repeatable(key: int, device):
    """Compute as ``drawing_from(key)``, with one thread and deterministic algorithms; then all is as before. Local.

    Raises ValueError, with the remedy, for what PyTorch refuses and a user can mend: see ``_explained``.
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
    """Let all global random numbers begin anew, as ``seed`` says; then they go on where they were. Local."""
    with torch.random.fork_rng([torch.cuda.current_device()] if device.type == "cuda" else []):
        numpys, pythons = np.random.get_bit_generator(), random.getstate()
        np.random.set_bit_generator(NUMPYS)  # to copy its own 624 words takes as long as a small forward pass
        seed(key, device)
        try:
            yield
        finally:
            np.random.set_bit_generator(numpys)
            random.setstate(pythons)


def seed(key: int, device=CPU):
    """Seed the global random numbers of PyTorch, NumPy (``np.random``) and Python (``random``). Local.

    Of PyTorch's only the CPU's, where no other device is used: to tell the others takes a thousand times as long.
    """
    (torch if device.type == "cuda" else torch.default_generator).manual_seed(key)
    np.random.seed(key % 2**32)  # it takes no more
    random.seed(key)


def _explained(problem: Exception) -> str | None:
    """Return a refusal in our words for what PyTorch says of an operation; None if it is another problem."""
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
