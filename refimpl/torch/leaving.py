"""Dense gradients are sent during the backward pass, each as soon as it is final."""

from contextlib import contextmanager
from functools import partial

import numpy as np
import torch

from models.protocol import nobody_waits
from refimpl.torch.tensors import to_array


@contextmanager
def leaving(values, gradients, batch, xp, looking: bool):
    """A context for the backward pass that adds dense gradients to ``gradients`` and calls ``batch.ready``. Local.

    values: name -> parameter.  gradients: name -> array of gradients that are final already.
    If nobody waits for gradients, it only checks hooks, and only if parameters have some, or if ``looking``. On a GPU
    it does nothing, because PyTorch runs the backward pass in a thread of its own. A parameter's own hooks run before,
    because they were registered earlier.
    """
    if xp is not np or not (looking or batch.ready is not nobody_waits
                            or any(value._post_accumulate_grad_hooks for value in values.values())):
        yield
        return
    batch.ready(dict(gradients))  # statistics share a bucket with the first gradients of the backward pass

    def leave(name, _):
        if name in gradients:
            raise ValueError(f"the gradient of {name} comes in several parts in the backward pass, and was sent after "
                             "the first: parts of the module that share it are computed again, each by itself; say "
                             "checkpoint(..., use_reentrant=False)")
        if (gradient := values[name].grad) is None:
            raise ValueError(f"a hook of {name} has taken its gradient away: the training's optimizer needs it; leave "
                             "the hook out")
        if gradient.layout is torch.strided:
            gradients[name] = to_array(gradient, xp)
            batch.ready({name: gradients[name]})

    hooks = [value.register_post_accumulate_grad_hook(partial(leave, name)) for name, value in values.items()
             if value.requires_grad]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
