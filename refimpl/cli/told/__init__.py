"""The output of commands on the terminal: tables, progress, and the messages of a training."""
