"""How one variable is kept, exchanged and paid for: one strategy a file."""
