"""Data by name, cut into microbatches. The microbatches do not depend on the number of ranks.

    corpus = load("shakespeare")
    data = TokenStreams(corpus.train, microbatches=8, streams=8, window=20)
    batch = data.microbatch(step=0, index=3)
"""

from models.data.contents import Corpus, Images
from models.data.files import DataError
from models.data.examples import Examples
from models.data.protocol import Data, fingerprint_of
from models.data.sources import SOURCES, is_source, load, source_names
from models.data.streams import TokenStreams
from models.data.text.verses import Verses, load_verses

__all__ = ["SOURCES", "Corpus", "Data", "DataError", "Examples", "Images", "TokenStreams", "Verses", "fingerprint_of",
           "is_source", "load", "load_verses", "source_names"]
