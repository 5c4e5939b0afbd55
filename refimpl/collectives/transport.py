"""How device arrays travel between ranks: chosen from what all ranks say of their GPUs, the same way by each of them."""


def open_transport(wire, device: int, wanted: str = "auto"):
    """Return the transport of a wire whose device arrays lie on GPU number ``device``. Collective over the wire."""
    from refimpl.collectives.staged import Staged  # needs CuPy

    return Staged(wire, device)
