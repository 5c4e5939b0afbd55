"""What a training leaves behind: run directory, metrics, checkpoints, timeline."""
