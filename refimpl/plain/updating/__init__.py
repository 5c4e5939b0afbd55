"""How an optimizer changes values, with clipping by the global norm."""
