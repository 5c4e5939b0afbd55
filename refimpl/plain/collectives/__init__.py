"""How ranks add up a vector that all of them have, and how one writes into the memory of another."""
