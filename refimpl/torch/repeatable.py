"""What else the bits of a computation in PyTorch depend on: random numbers, threads, the choice of algorithms."""

from contextlib import contextmanager

import torch
from torch.utils import deterministic

from models.frameworks.place import line_of


@contextmanager
def repeatable(key: int, device):
    """Compute with random numbers of ``key``, one thread and deterministic algorithms; then all is as before. Local.

    Raises ValueError, with the remedy, for what PyTorch refuses and a user can mend: see ``_explained``.
    """
    threads, fill = torch.get_num_threads(), deterministic.fill_uninitialized_memory
    were = torch.are_deterministic_algorithms_enabled()
    only_warned = torch.is_deterministic_algorithms_warn_only_enabled()
    with torch.random.fork_rng([torch.cuda.current_device()] if device.type == "cuda" else []):
        try:
            if threads != 1:
                torch.set_num_threads(1)
            torch.use_deterministic_algorithms(True)
            deterministic.fill_uninitialized_memory = False
            seed(key, device)
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


def seed(key: int, device=torch.device("cpu")):
    """Let PyTorch's random numbers begin anew, as ``torch.manual_seed(key)`` does. Local.

    Where no other device is used only the CPU's do: to tell the others takes a thousand times as long.
    """
    (torch if device.type == "cuda" else torch.default_generator).manual_seed(key)


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
