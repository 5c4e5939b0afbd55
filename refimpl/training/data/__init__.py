"""Real data by name, cut into microbatches without overlap or loss, whatever the number of ranks.

    corpus = load("shakespeare")
    data = TokenStreams(corpus.train, microbatches=8, streams=8, window=20)
    batch = data.microbatch(step=0, index=3)
"""

from refimpl.training.data.contents import Corpus, Images
from refimpl.training.data.errors import DataError
from refimpl.training.data.examples import Examples
from refimpl.training.data.fingerprint import fingerprint_of
from refimpl.training.data.protocol import Data, one_epoch
from refimpl.training.data.sources import SOURCES, load
from refimpl.training.data.streams import TokenStreams
from refimpl.training.data.verses import Verses, load_verses

__all__ = [
    "SOURCES",
    "Corpus",
    "Data",
    "DataError",
    "Examples",
    "Images",
    "TokenStreams",
    "Verses",
    "fingerprint_of",
    "load",
    "load_verses",
    "one_epoch",
]
