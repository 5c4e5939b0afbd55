"""Drawings of schedules, plans, servers, sums and runs, each with a text alternative for blind readers."""
