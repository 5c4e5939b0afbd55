"""What the ranks of the measurements run: each file is a program whose rank 0 prints one JSON object."""
