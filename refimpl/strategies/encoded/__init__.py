"""Strategies of dense variables, each for one kind of codec: elements, low-rank, messages."""
