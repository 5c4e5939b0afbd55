"""What commands tell people on the terminal: tables, progress, and what a training says."""
