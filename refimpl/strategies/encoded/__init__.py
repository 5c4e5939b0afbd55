"""Strategies of dense variables that carry one kind of codec each: elements, low-rank, messages."""
