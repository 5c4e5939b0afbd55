"""``verses:DIR``: verses of the Bible in English and Spanish, public domain, from two of Debian's packages.

    apt-get download sword-text-web sword-text-sparv    # needs no root
    for f in sword-text-*.deb; do dpkg-deb -x $f DIR; done

The editions number some verses differently. Both mark each word with the Strong's number of the Hebrew or Greek word
that it translates. A pair is kept if at least half of the smaller set of Strong's numbers is in the other set.
"""

import re
import struct
import zlib
from pathlib import Path

from models.data.files import DataError, read_bytes, require_directory
from models.data.pairs.words import Pairs, held_out, join, pairs_of, split

EDITIONS = ("engWEB2015eb", "spaRV1909eb")
MODULES = "usr/share/sword/modules/texts/ztext"
REMEDY = ("give the directory into which Debian's packages sword-text-web and sword-text-sparv are unpacked: "
          "apt-get download sword-text-web sword-text-sparv; for f in *.deb; do dpkg-deb -x $f DIR; done; verses:DIR")
HELDOUT = 30
"""1 / HELDOUT of the verses is held out, evenly through the books."""
CHAPTER = re.compile(r'<chapter [^>]*osisID="([^"]+)"')
STRONG = re.compile(r"strong:([HG]\d+)")
NOTE = re.compile(r"<note\b.*?</note>|<title\b.*?</title>", re.DOTALL)
TAG = re.compile(r"<[^>]*>")


def load_verse_pairs(directory: str = "/") -> Pairs:
    """Return the pairs of verses. directory: of the unpacked packages. Local. Raises DataError."""
    root = require_directory(Path(directory) / MODULES, REMEDY)
    english, spanish = (read_edition(root / name) for name in EDITIONS)
    both = [verse for verse in english if verse in spanish and alike(english[verse], spanish[verse])]
    if not both:
        raise DataError(f"{root}: the editions have no verse in common; {REMEDY}")
    pairs = [(split(words_of(english[verse])), split(words_of(spanish[verse]))) for verse in both]
    return pairs_of(f"verses:{directory}", *held_out(pairs, HELDOUT), split, join, REMEDY)


def read_edition(directory: Path) -> dict[str, str]:
    """Return the verses of an edition, marked up: "Gen.1.1" -> text. Local. Raises DataError.

    A slot holds the heading of a chapter, or the next verse of the chapter, or nothing.
    """
    verses = {}
    for testament in ("ot", "nt"):
        chapter, number = None, 0
        for text in read_slots(directory, testament, REMEDY):
            if heads := CHAPTER.findall(text):
                chapter, number = heads[-1], 0
            elif chapter is not None:
                number += 1
                if text:
                    verses[f"{chapter}.{number}"] = text
    return verses


def alike(one: str, other: str) -> bool:
    """Return whether at least half of the smaller set of Strong's numbers is in the other text's set. Local."""
    mine, theirs = (set(STRONG.findall(text)) for text in (one, other))
    return 2 * len(mine & theirs) >= min(len(mine), len(theirs)) > 0


def words_of(text: str) -> str:
    """Return a verse without notes, titles and marks. Local."""
    return " ".join(TAG.sub("", NOTE.sub(" ", text)).replace("¶", " ").split())


def read_slots(directory: Path, testament: str, remedy: str) -> list[str]:
    """Return the slots of a testament, "ot" or "nt", empty ones too. Local. Raises DataError."""
    blocks, slots, packed = (read_bytes(directory / f"{testament}.{kind}", remedy) for kind in ("bzs", "bzv", "bzz"))
    try:
        unpacked = [zlib.decompress(packed[start:start + size]) if size else b""
                    for start, size, _ in struct.iter_unpack("<III", blocks)]
        return [unpacked[block][start:start + size].decode() if size else ""
                for block, start, size in struct.iter_unpack("<IIH", slots)]
    except (struct.error, zlib.error, IndexError, UnicodeDecodeError) as error:
        raise DataError(f"{directory}: {testament} is damaged ({error}); {remedy}") from None
