"""``pairs:FILES``: your own sentence pairs.

    pairs:FILE                      each line holds both sentences, with a tab between them
    pairs:SOURCE,TARGET             line n of TARGET translates line n of SOURCE (the format of Moses)
    pairs:SOURCE,TARGET,BPE         the same, with words split into pieces: see ``models.data.pairs.bpe``
"""

from pathlib import Path

from models.data.files import DataError, read_text
from models.data.pairs.bpe import read_pieces
from models.data.pairs.words import Pairs, held_out, join, pairs_of, split

REMEDY = ("give one file with a tab in each line, or two files with equally many lines: pairs:FILE, "
          "pairs:SOURCE,TARGET[,BPE]")
HELDOUT = 30
"""1 / HELDOUT of the pairs is held out, evenly through the files."""


def load_pairs(files: str) -> Pairs:
    """Return the pairs of one or two UTF-8 files; one pair in HELDOUT is held out. Local. Raises DataError."""
    paths = [Path(part) for part in files.split(",")]
    if len(paths) > 3:
        raise DataError(f"pairs:{files} names {len(paths)} files; {REMEDY}")
    pairs = _of_one(paths[0]) if len(paths) == 1 else _of_two(*paths[:2])
    pieces = read_pieces(paths[2], REMEDY) if len(paths) == 3 else None
    cut, glue, words = (split, join, None) if pieces is None else (pieces.split, pieces.join, pieces.vocabulary)
    pairs = [(cut(source), cut(target)) for source, target in pairs]
    return pairs_of(f"pairs:{files}", *held_out(pairs, max(1, min(HELDOUT, len(pairs)))), cut, glue, REMEDY,
                    (words, words))


def _of_one(path):
    found = []
    for number, line in enumerate(read_text(path, REMEDY).splitlines(), 1):
        if line.count("\t") != 1:
            raise DataError(f"{path}: line {number} has {line.count(chr(9))} tabs instead of one; {REMEDY}")
        found.append(tuple(line.split("\t")))
    return found


def _of_two(source, target):
    sides = [read_text(path, REMEDY).splitlines() for path in (source, target)]
    if len(sides[0]) != len(sides[1]):
        raise DataError(f"{source} has {len(sides[0])} lines and {target} {len(sides[1])}; {REMEDY}")
    return list(zip(*sides))
