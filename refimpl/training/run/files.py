"""Write files completely or not at all: under a temporary name, synced, then renamed."""

import hashlib
import json
import os
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def appears_whole(path: Path):
    """Yield a temporary path beside ``path``. If the block succeeds, sync the file and rename it to ``path``."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield temporary
        with open(temporary, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
        sync_directory(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def sync_directory(directory: Path):
    """Write the renames in a directory to the disk."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_json(path: Path, value):
    """Write a JSON file, completely or not at all."""
    with appears_whole(path) as temporary:
        temporary.write_text(json.dumps(value, indent=1) + "\n")


def file_sha256(path: Path) -> str:
    """Return the hex SHA-256 of a file's content."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
