"""Trainings in which no rank waits for all others."""
