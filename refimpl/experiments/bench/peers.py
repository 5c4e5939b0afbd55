"""The libraries that benchmarks race against, where they are installed."""

import sys


def import_torch():
    """Return torch, set to one thread, or None with a note on stderr where it is not installed. Local."""
    try:
        import torch
    except ImportError:
        print("peer left out: torch is not installed (pip install 'refimpl[torch]')", file=sys.stderr)
        return None
    torch.set_num_threads(1)
    return torch
