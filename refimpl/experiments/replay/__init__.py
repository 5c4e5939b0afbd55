"""Replay: a training that sleeps as long as the computation took alone, and exchanges the real rows."""
