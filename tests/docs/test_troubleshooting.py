"""Every message that the page on troubleshooting quotes is one that the product prints."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
QUOTED = re.compile(r"^### `(.+)`$", re.MULTILINE)


def messages(root, quoted):
    """Return the texts of the product, where it has a quoted message's longest word; what is put in there is …."""
    found, words = [], {max(re.findall(r"\w+", each), key=len) for each in quoted}
    for room in ("refimpl", "models", "kernels"):
        for path in (root / room).rglob("*.py"):
            text = path.read_text("utf-8")
            for node in ast.walk(ast.parse(text)) if words & {*re.findall(r"\w+", text)} else ():
                if isinstance(node, ast.JoinedStr):
                    found.append("".join(part.value if isinstance(part, ast.Constant) else "…" for part in node.values))
                elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                    found.append(node.value)
    return found


def unknown(quoted):
    """Return the messages that no text of the product holds."""
    said = messages(ROOT, quoted)
    return [each for each in quoted if not any(each in text for text in said)]


def test_the_product_says_what_the_page_quotes():
    quoted = QUOTED.findall((ROOT / "docs" / "troubleshooting.md").read_text("utf-8"))
    assert len(quoted) >= 15 and unknown([*quoted, "rank … is a teapot"]) == ["rank … is a teapot"]
