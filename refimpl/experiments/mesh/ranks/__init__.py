"""What the ranks of the measurements run: each program's main returns plain data."""
