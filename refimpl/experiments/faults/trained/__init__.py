"""What the trials train: an honest subject, and the same lying."""
