"""What may befall a file: drawn by Hypothesis from the content of a right one."""

import copy
import json
import math
import os

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

FUZZ = settings(max_examples=int(os.environ.get("REFIMPL_FUZZ_EXAMPLES", "100")),  # damages that each test draws
                suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
DEEP: list = []
for _ in range(62):
    DEEP = [DEEP]
ODD = (None, True, -1, 0, 1, 7, 2**63, 10**400, 0.5, 1e308, math.nan, math.inf, "", "x", "1", "\ud800", "ä\n",
       "x" * 5000, "../x", "/dev/zero", [], [[]], [1, "a"], {}, {"a": {}}, {"": 0}, DEEP)
"""Values of every type, and the worst of each."""


def places(value, path=()):
    """Yield the path of every value within a value."""
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield (*path, key)
        yield from places(value[key], (*path, key))


@st.composite
def damaged_data(draw, right):
    """Return JSON values like ``right``, but for one to three damages: wrong types, fields gone, added or moved."""
    data = copy.deepcopy(right)
    for _ in range(draw(st.integers(1, 3))):
        found = list(places(data))
        *path, key = draw(st.sampled_from(found)) if found else (None,)
        if key is None:
            break
        parent = data
        for step in path:
            parent = parent[step]
        how = draw(st.sampled_from(("value", "value", "delete", "another's", "extra", "nest")))
        if how == "value":
            parent[key] = copy.deepcopy(draw(st.sampled_from(ODD)))
        elif how == "delete":
            del parent[key]
        elif how == "nest":
            parent[key] = [parent[key]]
        else:
            other = right
            for step in draw(st.sampled_from(list(places(right)))):
                other = other[step]
            if how == "another's":
                parent[key] = copy.deepcopy(other)
            elif isinstance(parent, dict):
                parent["extra"] = copy.deepcopy(other)
            else:
                parent.append(copy.deepcopy(other))
    return data


@st.composite
def damaged_text(draw, right):
    """Return a JSON text: of damaged data, with a field twice, deep beyond measure, or with damaged bytes."""
    how = draw(st.sampled_from(("data", "data", "data", "data", "twice", "deep", "bytes", "bytes")))
    if how == "data":
        return json.dumps(draw(damaged_data(right))).encode()
    text = json.dumps(right)
    if how == "twice" and isinstance(right, dict) and right:
        name = draw(st.sampled_from(sorted(right)))
        return f'{{{json.dumps(name)}: {json.dumps(draw(st.sampled_from(ODD)))}, {text[1:]}'.encode()
    if how == "deep":
        kind, times = draw(st.sampled_from(("[", '{"a":'))), draw(st.sampled_from((65, 900, 100_000)))
        return (kind * times + ("1" + {"[": "]"}.get(kind, "}") * times) * draw(st.booleans())).encode()
    return draw(damaged_bytes(text.encode()))


@st.composite
def damaged_bytes(draw, right: bytes):
    """Return bytes like ``right``, but cut off, with bits flipped, or with some bytes gone, written over or added."""
    content, how = bytearray(right), draw(st.sampled_from(("cut", "flip", "over", "gone", "more")))
    at = draw(st.integers(0, max(0, len(content) - 1)))
    if how == "cut":
        return bytes(content[:at])
    if how == "flip":
        for place in draw(st.lists(st.integers(0, len(content) - 1), min_size=1, max_size=4)):
            content[place] ^= 1 << draw(st.integers(0, 7))
    else:
        length, new = draw(st.integers(1, 8)), draw(st.binary(min_size=1, max_size=8))
        content[at:at + {"over": len(new), "gone": length, "more": 0}[how]] = b"" if how == "gone" else new
    return bytes(content)
