"""Data by name. To add a source, write its file and add its line to SOURCES."""

import inspect

from models.data.contents import Corpus, Images
from models.data.files import DataError
from models.data.images.cifar10 import load_cifar10
from models.data.images.digits import load_digits
from models.data.images.fashion_mnist import load_fashion_mnist
from models.data.images.noise import load_random_images
from models.data.pairs.file import load_pairs
from models.data.pairs.numbers import load_numbers
from models.data.pairs.synthetic import load_synthetic_pairs
from models.data.pairs.verses import load_verse_pairs
from models.data.pairs.words import Pairs
from models.data.text.file import load_text
from models.data.text.lm1b import load_lm1b
from models.data.text.shakespeare import load_shakespeare
from models.data.text.synthetic import load_synthetic

SOURCES = {
    "shakespeare": load_shakespeare,
    "text:FILE": load_text,
    "lm1b:DIR": load_lm1b,
    "synthetic[:VOCABULARY]": load_synthetic,
    "digits": load_digits,
    "fashion-mnist[:DIR]": load_fashion_mnist,
    "cifar10:DIR": load_cifar10,
    "random-images[:SHAPE]": load_random_images,
    "numbers[:LANGUAGES]": load_numbers,
    "verses:DIR": load_verse_pairs,
    "pairs:FILES": load_pairs,
    "synthetic-pairs[:VOCABULARY]": load_synthetic_pairs,
}
FORMS = {form.partition(":")[0].rstrip("["): form for form in SOURCES}


def is_source(name: str) -> bool:
    """Return whether a name, without its colon and what follows, is in SOURCES. Local."""
    return name.partition(":")[0] in FORMS


def source_names(content: type | None = None) -> str:
    """Return the names of the sources with this type of content (None: of all), as text for messages. Local."""
    return ", ".join(form for form, loader in SOURCES.items()
                     if content in (None, inspect.signature(loader).return_annotation))


def load(name: str) -> Corpus | Images | Pairs:
    """Return the data called ``name``, e.g. "shakespeare" or "lm1b:DIR" (see SOURCES). Local, on each rank.

    Raises DataError if the source does not exist, or if files are missing or damaged.
    """
    kind, _, argument = name.partition(":")
    if kind not in FORMS:
        raise DataError(f"no data called {name!r}; there are {source_names()}")
    form, loader = FORMS[kind], SOURCES[FORMS[kind]]
    if argument and ":" not in form or not argument and ":" in form and "[" not in form:
        raise DataError(f"{name!r} should read {form}")
    return loader(argument) if argument else loader()
