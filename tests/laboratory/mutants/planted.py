"""The classic bugs of data-parallel training, each with the names that a good diagnosis gives it."""

from mutants.aggregation import AGGREGATION
from mutants.groups import CODECS, MESHES, OWNERS
from mutants.training import TRAINING

MUTANTS = tuple(sorted((*AGGREGATION, *TRAINING, *OWNERS, *MESHES, *CODECS), key=lambda mutant: mutant.bug))
"""Most numbers once; those that name several bugs more often."""
