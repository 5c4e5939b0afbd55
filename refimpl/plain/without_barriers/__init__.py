"""Trainings in which ranks need not wait for all others in every step."""
