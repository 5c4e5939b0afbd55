"""Works raced on one GPU, what they must cost at least, and the report."""
