"""Measure encoded gradients beside float32 and PyTorch's hooks: seconds, bytes, and steps to a held-out loss."""

from models.recipe import Recipe

RATE = "200mbit"
"""The rate of the machines' cards at which bf16 has an aim."""
RECIPES = {
    "vgg": Recipe("vgg", "digits", sizes={"connected": (2048, 2048), "augment": 0}),
    "cnn": Recipe("cnn", "digits", sizes={"augment": 0}, microbatch_size=16),
    "lm": Recipe("lm", "shakespeare", heldout=2000),
}
"""Part of the report -> its training, with one microbatch on each machine. The first is nearly all dense weights, the
second is nearly all computation, and most bytes of the third are rows."""
CHANGED = {"vgg": {"learning_rate": 0.003}}
"""Part -> options that differ from the model's own: wide layers do not learn with a larger rate."""
PARTS = tuple(RECIPES)
BASE, DDP = "float32", "DDP float32"
CODECS = {BASE: {}, "bf16": {"dense": "bf16"}, "fp16": {"dense": "fp16"}, "integers:16": {"dense": "integers:16"},
          "integers:8": {"dense": "integers:8"}, "topk:0.01": {"dense": "topk:0.01"},
          "powersgd:2": {"dense": "powersgd:2"}, "onebit": {"dense": "onebit"}}
"""Our trainings -> the value of ``--codec``."""
HOOKS = {DDP: "", "DDP fp16 hook": "fp16", "DDP PowerSGD, rank 2": "powersgd"}
"""PyTorch's trainings -> the hook."""
HEAD = """# Fewer bytes: does it pay?

Emulated machines of one rank train with and without encoded gradients, beside PyTorch's DistributedDataParallel over
gloo and its hooks, in the same processes, step by step in turns. All ranks share the cores
of this machine. The 16-bit baseline is bf16, and PyTorch's fp16 hook.

- **computation**: processor's seconds of a step of a rank without other ranks, update included, in float32
- **coding**: what such a step takes more with the codec
- **bytes**: of the busiest card in a step, headers included; **line**: their seconds at the card's rate
- **rest**: what a step took beyond these: waiting for a core or for other ranks, merging, copies, less what overlaps
- **steps**, **MB**: until the held-out loss is at most that of float32 after three quarters of the steps, and the bytes
  of so many steps; "-": not reached, or not measured. PyTorch's networks start from other values
"""
