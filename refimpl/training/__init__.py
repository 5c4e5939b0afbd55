"""Train a model on all ranks: one step, optimizers' use, data, checkpoints, what a run writes."""
