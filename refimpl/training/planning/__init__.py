"""The plan of a training: given, chosen or made; and the trials of partitions during the training."""
