"""Checks of a user's model and data: all their answers are checked, and an error says which one is wrong."""
