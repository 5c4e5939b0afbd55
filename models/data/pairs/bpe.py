"""Pieces of words by byte-pair encoding, in the form of subword-nmt (Sennrich, Haddow, Birch 2016).

Each piece but the last of a word ends with "@@": "lo@@ w@@ er".  There are two kinds of file:

    codes       first line "#version: …", then one merge in each line; words are split by these merges
    vocabulary  one piece in each line, optionally with its count; the text is already split into pieces
"""

from functools import lru_cache
from pathlib import Path

from models.data.files import DataError, read_text

GOES_ON, ENDS = "@@", "</w>"


class Pieces:
    """Splits words. merges: (left, right) -> rank, or None for text already in pieces; vocabulary: pieces, or None."""

    def __init__(self, merges=None, vocabulary=None):
        self.merges, self.vocabulary = merges, vocabulary
        self.pieces_of = lru_cache(maxsize=2**16)(self._pieces_of)

    def split(self, text: str) -> list[str]:
        """Return the pieces of the words of a text. Spaces separate words. Local."""
        words = text.split()
        return words if self.merges is None else [piece for word in words for piece in self.pieces_of(word)]

    def join(self, pieces: list[str]) -> str:
        """Return the text of pieces. Local."""
        return " ".join(pieces).replace(f"{GOES_ON} ", "")

    def _pieces_of(self, word):
        parts = [*word[:-1], word[-1] + ENDS]
        while len(parts) > 1:
            rank, pair = min((self.merges.get(pair, len(self.merges)), pair) for pair in zip(parts, parts[1:]))
            if rank == len(self.merges):
                break
            parts = merged(parts, pair)
        return tuple(part.removesuffix(ENDS) if part.endswith(ENDS) else part + GOES_ON for part in parts)


def merged(parts, pair):
    """Return the parts with every occurrence of a pair joined, from the left. Local."""
    found, at = [], 0
    while at < len(parts):
        both = tuple(parts[at:at + 2]) == pair
        found.append("".join(pair) if both else parts[at])
        at += 2 if both else 1
    return found


def read_pieces(path: Path, remedy: str) -> Pieces:
    """Read a file of codes or a vocabulary. Local. Raises DataError."""
    lines = [line.split() for line in read_text(path, remedy).splitlines() if line.strip()]
    if not lines:
        raise DataError(f"{path}: empty; {remedy}")
    if lines[0][0].startswith("#version"):
        if wrong := [line for line in lines[1:] if len(line) != 2]:
            raise DataError(f"{path}: {' '.join(wrong[0])!r} is no merge of two pieces; {remedy}")
        return Pieces(merges={pair: rank for rank, pair in reversed(list(enumerate(map(tuple, lines[1:]))))})
    return Pieces(vocabulary=list(dict.fromkeys(line[0] for line in lines)))
