"""The libraries that benchmarks race against, where they are installed."""

import sys
import warnings


def import_torch():
    """Return torch, set to one thread, or None with a note on stderr where it is not installed. Local."""
    try:
        import torch
    except ImportError:
        print("peer left out: torch is not installed (pip install 'refimpl[torch]')", file=sys.stderr)
        return None
    torch.set_num_threads(1)
    torch.sparse.check_sparse_tensor_invariants.disable()  # they cost time; saying so here keeps torch quiet
    warnings.filterwarnings("ignore", "LSTM with projections is not supported with oneDNN")  # so it says
    return torch
