"""The files of a run: run directory, metrics, checkpoints, timeline."""
