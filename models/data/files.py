"""Read whole files. Every data source raises the same error, DataError, for a file that is missing or damaged."""

import gzip
import zlib
from pathlib import Path

GZIP_MAGIC = b"\x1f\x8b"


class DataError(ValueError):
    """Data is missing or damaged. The message names the file, says what is wrong, and how to get a good one."""


def read_bytes(path: Path, remedy: str) -> bytes:
    """Return the content of ``path``, decompressed if it is gzip. Local.

    Raises DataError, which ends with ``remedy``, if the file is missing, unreadable, truncated or corrupt.
    """
    path = Path(path)
    try:
        if path.exists() and not (path.is_file() or path.is_dir()):  # reading a pipe or a device might never end
            raise DataError(f"{path}: not a plain file; {remedy}")
        content = path.read_bytes()
    except MemoryError:
        raise DataError(f"{path}: its {path.stat().st_size} bytes do not fit in memory; {remedy}") from None
    except FileNotFoundError:
        raise DataError(f"{path}: no such file; {remedy}") from None
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}; {remedy}") from None
    if not content.startswith(GZIP_MAGIC):
        return content
    try:
        return gzip.decompress(content)
    except (EOFError, OSError, zlib.error) as error:
        raise DataError(f"{path}: damaged gzip file ({error}); {remedy}") from None


def read_text(path: Path, remedy: str) -> str:
    """Return the content of a UTF-8 file without its byte order mark. Local. Raises DataError as ``read_bytes``."""
    content = read_bytes(path, remedy)
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: byte {error.start} is not UTF-8 ({error.reason}); {remedy}") from None
    return text.removeprefix("\ufeff")


def require_directory(path: Path, remedy: str) -> Path:
    """Return ``path`` as a Path. Local. Raises DataError if it is not a directory."""
    path = Path(path)
    if not path.is_dir():
        raise DataError(f"{path}: {'not a directory' if path.exists() else 'no such directory'}; {remedy}")
    return path


def require_labels(path: Path, labels, classes: int, remedy: str):
    """Raise DataError, naming the first, if a label of a file is not below ``classes``. Local."""
    if labels.max() >= classes:
        where = int((labels >= classes).argmax())
        raise DataError(f"{path}: label {where} is {labels[where]}, the largest is {classes - 1}; {remedy}")
