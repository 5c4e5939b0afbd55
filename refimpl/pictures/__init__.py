"""Drawings of schedules, plans, servers, sums and runs, with words for who cannot see them."""
