"""Damage to a file, as data: functions of (content, random numbers). They know no format but JSON and safetensors."""

import copy
import json
import math
import random

import numpy as np
from safetensors.numpy import load, save

STRANGE = (None, True, False, 0, -1, 3, 2**63, 10**400, 0.5, 1e300, math.nan, math.inf, "", "x", "6", "ä\n",
           "x" * 5000, "/dev/zero", [], {}, [[]], [None], {"a": 1}, {"": 0}, "\ud800")
DEEP = 200_000  # brackets: far deeper than a reader that calls itself can go


def paths_of(value, path=()) -> list[tuple]:
    """Return the path (keys and positions) to everything within a JSON value, the whole left out."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [found for key, one in inner for found in [(*path, key), *paths_of(one, (*path, key))]]


def _parent(value, path):
    for key in path[:-1]:
        value = value[key]
    return value


def changed(value, rng):
    """Return another value of the same type, where there is one."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        return rng.choice([value + 1, value * 2 + 1, -value - 1, value + type(value)(3)])
    if isinstance(value, str):
        return rng.choice([value + "x", value[:-1] + ("0" if not value.endswith("0") else "1"), value.upper() + "_"])
    return rng.choice([one for one in STRANGE if one != value])


def damage_json(how: str, text: str, rng: random.Random) -> tuple[bytes, str]:
    """Return (damaged text, what was done). how: of JSON_DAMAGES."""
    value = json.loads(text)
    path = rng.choice(paths_of(value))
    parent, where = _parent(value, path), "/".join(map(str, path))
    match how:
        case "value" | "number":
            leaves = [p for p in paths_of(value) if not isinstance(_parent(value, (*p, None)), (dict, list))]
            numbers = [p for p in leaves if type(_parent(value, (*p, None))) in (int, float)]
            path = rng.choice(numbers or leaves if how == "number" else leaves)
            parent, where = _parent(value, path), "/".join(map(str, path))
            parent[path[-1]] = changed(parent[path[-1]], rng)
            done = f"{where} is {parent[path[-1]]!r}"
        case "type":
            kinds = [one for one in STRANGE if type(one) is not type(parent[path[-1]])]
            parent[path[-1]] = rng.choice(kinds)
            done = f"{where} is {parent[path[-1]]!r}"
        case "another's":
            here = parent[path[-1]]
            other = rng.choice([p for p in paths_of(value) if _parent(value, (*p, None)) != here] or [path])
            parent[path[-1]] = copy.deepcopy(_parent(value, (*other, None)))
            done = f"{where} is what {'/'.join(map(str, other))} is"
        case "nest":
            parent[path[-1]] = [parent[path[-1]]]
            done = f"{where} is in a list"
        case "drop":
            del parent[path[-1]]
            done = f"{where} is missing"
        case "extra":
            value["another"] = rng.choice(STRANGE)
            done = "a field too many"
        case "duplicate":
            key = rng.choice(list(value))
            again = json.dumps({key: changed(value[key], rng)})[1:-1]
            return json.dumps(value).replace("{", "{" + again + ", ", 1).encode(errors="replace"), f"{key} stands twice"
        case "deep":
            parent[path[-1]] = "DEEP"
            deep = rng.choice(["[" * DEEP + "]" * DEEP, '{"a":' * DEEP + "1" + "}" * DEEP])
            return json.dumps(value).replace('"DEEP"', deep).encode(), f"{where} is {DEEP} brackets deep"
        case _:
            return damage_bytes(how, text.encode(), rng)
    return json.dumps(value).encode(), done


def damage_bytes(how: str, content: bytes, rng: random.Random) -> tuple[bytes, str]:
    """Return (damaged bytes, what was done). how: of BYTE_DAMAGES."""
    match how:
        case "flip":
            at = rng.randrange(8 * len(content))
            damaged = bytearray(content)
            damaged[at // 8] ^= 1 << at % 8
            return bytes(damaged), f"bit {at} is flipped"
        case "over" | "gone":
            at, most = rng.randrange(len(content)), rng.randrange(1, 9)
            new = bytes(byte ^ rng.randrange(1, 256) for byte in content[at:at + most]) if how == "over" else b""
            return content[:at] + new + content[at + most:], f"from byte {at} on {most} are {new or 'gone'}"
        case "truncate":
            kept = rng.randrange(len(content))
            return content[:kept], f"cut after {kept} bytes"
        case "empty":
            return b"", "empty"
        case "noise":
            return rng.randbytes(len(content)), "noise"
        case "longer":
            return content + rng.randbytes(16), "16 bytes longer"
    raise ValueError(f"no damage {how}")


BYTE_DAMAGES = ("flip", "over", "gone", "truncate", "empty", "noise", "longer")
JSON_DAMAGES = ("value", "number", "number", "type", "type", "another's", "nest", "drop", "extra", "duplicate", "deep",
                "flip", "truncate", "empty", "noise")


def damage_arrays(how: str, content: bytes, rng: random.Random) -> tuple[bytes, str]:
    """Return (a damaged safetensors file, what was done). how: of ARRAY_DAMAGES."""
    if how in BYTE_DAMAGES:
        return damage_bytes(how, content, rng)
    arrays = load(content)
    key = rng.choice(sorted(key for key in arrays if arrays[key].size))
    match how:
        case "integers":
            arrays[key] = np.round(arrays[key] * 100).astype(np.int32)
        case "float64":
            arrays[key] = arrays[key].astype(np.float64) + 1e-3
        case "numbers":
            arrays[key] = arrays[key] + arrays[key].dtype.type(1)
        case "NaN":
            arrays[key] = arrays[key] * arrays[key].dtype.type("nan")
        case "shape":
            arrays[key] = arrays[key].reshape(-1)[:-1].copy()
        case "missing":
            del arrays[key]
        case "no carried state":
            arrays = {name: array for name, array in arrays.items() if not name.startswith("carry/")}
            key = "all carried state"
    return save(arrays), f"{key}: {how}"


ARRAY_DAMAGES = (*BYTE_DAMAGES, "integers", "float64", "numbers", "NaN", "shape", "missing", "no carried state")
