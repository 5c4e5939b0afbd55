"""Train a model on all ranks: steps, the optimizer's updates, data, checkpoints, and the files of a run."""
