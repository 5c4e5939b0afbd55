"""The keywords that CuPy takes: NumPy takes more, such as ``initial`` and ``where``, and would hide that CuPy does not.

``keywords.json`` has those of CuPy 14.0, the oldest that is allowed; tests/device/test_standin.py holds it to CuPy.
"""

import json
from pathlib import Path

KNOWN = {kind: {name: set(words.split()) for name, words in table.items()} for kind, table in
         json.loads((Path(__file__).parent / "keywords.json").read_text()).items()}
"""kind ("functions" or "methods") -> name -> keywords; of names that are missing nothing is known."""


def check(kind: str, name: str, given):
    """Raise TypeError for a keyword that CuPy's function or method of this name does not take."""
    if given and not KNOWN[kind].get(name, set(given)).issuperset(given):
        raise TypeError(f"CuPy's {name} takes no {', '.join(sorted(set(given) - KNOWN[kind][name]))}; it takes "
                        f"{', '.join(sorted(KNOWN[kind][name]))}")
