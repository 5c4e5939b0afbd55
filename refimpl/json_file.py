"""Read JSON files of any origin. A file that is not valid gives an error with its path, the field and a remedy.

The expected content is given by a type: a msgspec.Struct, a dataclass, a TypedDict. msgspec checks the content.
"""

import json
import stat
from collections import Counter
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import is_typeddict

import msgspec

MOST_BYTES = 16 << 20
"""Of a file, where its reader says no other limit: a plan of a million partitions has 7 MiB."""
MOST_DEPTH = 64
"""Of objects and lists within each other: nothing of ours goes beyond 8."""


def read_json(path, type, *, what: str, remedy: str, most_bytes: int = MOST_BYTES):
    """Return the content of a JSON file, as ``type``. Local.

    what: the expected file, with its article.  remedy: what the user can do if the file is wrong.
    Raises ValueError, which names the path, the error, its place and the remedy; OSError if it cannot be read.
    """
    try:
        return parse_json(read_plain(path, most_bytes), type)
    except ValueError as problem:
        raise ValueError(f"{path} is damaged, or not {what}: {problem}; {remedy}") from problem


def read_plain(path, most_bytes: int) -> bytes:
    """Return the content of a plain file. Raises as ``check_plain`` does. Local."""
    check_plain(path, most_bytes)
    with open(path, "rb") as file:
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:  # it grew, or has no size (like files in /proc)
        raise ValueError(f"it has more than {most_bytes:,} bytes")
    return content


def check_plain(path, most_bytes: int):
    """Raise ValueError unless a path is a plain file of at most ``most_bytes`` bytes (a pipe might never end). Local.

    Raises OSError if the path does not exist.
    """
    about = Path(path).stat()
    if not stat.S_ISREG(about.st_mode):
        raise ValueError("it is no plain file")
    if about.st_size > most_bytes:
        raise ValueError(f"it has {about.st_size:,} bytes; at most {most_bytes:,} are read")


def parse_json(content: bytes | str, type):
    """Return the content of a JSON text, as ``type``. Raises ValueError with the error and its place. Local."""
    try:
        text = content if isinstance(content, str) else content.decode()
        data = json.loads(text, object_pairs_hook=_object)
    except UnicodeDecodeError as problem:
        raise ValueError(f"it is no text: byte {problem.start} is not UTF-8") from problem
    except json.JSONDecodeError as problem:
        raise ValueError(f"it is not JSON: {problem}") from problem
    except RecursionError as problem:
        raise ValueError(_too_deep()) from problem
    _check_values(data)
    return shaped(data, type)


def shaped(data, type, at: str = "$"):
    """Return plain data as ``type``; for a TypedDict or ``object`` the data themselves. Local.

    at: the place of the data in a file.  Raises ValueError with the path of the wrong field, also for a field that a
    dataclass does not have.
    """
    try:
        found = msgspec.convert(data, type, str_keys=True)  # JSON's keys are strings
    except msgspec.ValidationError as problem:
        said = str(problem).replace("`$", f"`{at}")
        raise ValueError(said if at == "$" or f"`{at}" in said else f"{said} - at `{at}`") from problem
    if is_dataclass(type) and (unknown := sorted(set(data) - {field.name for field in fields(type)})):
        known = ", ".join(field.name for field in fields(type))
        raise ValueError(f"Object contains unknown field {', '.join(map(repr, unknown))} - at `{at}`; it has {known}")
    return data if is_typeddict(type) else found


def _object(pairs) -> dict:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(name for name, times in Counter(name for name, _ in pairs).items() if times > 1)
        raise ValueError(f"the field {twice!r} is there more than once")
    return found


def _check_values(data):
    """Raise ValueError for too deep nesting, and for half a surrogate pair, which cannot be written or printed."""
    level, depth = [data], 0
    while level := [child for one in level for child in _within(one)]:
        depth += 1
        if depth > MOST_DEPTH:
            raise ValueError(_too_deep())


def _within(value):
    """Return the items of a list or an object; check texts."""
    if isinstance(value, dict):
        return [*value, *value.values()]
    if isinstance(value, str) and not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as problem:
            raise ValueError(f"{value!r} is no text: it has half a character") from problem
    return value if isinstance(value, list) else ()


def _too_deep() -> str:
    return f"its lists and objects lie more than {MOST_DEPTH} deep"
