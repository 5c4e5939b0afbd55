"""Allreduce algorithms: each is a generator of rounds."""
