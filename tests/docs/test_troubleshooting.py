"""Every message that the page on troubleshooting quotes is one that the product prints."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
QUOTED = re.compile(r"^### `(.+)`$", re.MULTILINE)


def messages(root):
    """Return the texts of the product; what is put in where it runs is …."""
    found = []
    for room in ("refimpl", "models", "kernels"):
        for path in (root / room).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.JoinedStr):
                    found.append("".join(part.value if isinstance(part, ast.Constant) else "…" for part in node.values))
                elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                    found.append(node.value)
    return found


def unknown(page, said):
    """Return the quoted messages of which no text of the product holds the words."""
    return [quoted for quoted in QUOTED.findall(page) if not any(quoted in text for text in said)]


def test_the_product_says_what_the_page_quotes():
    said, page = messages(ROOT), (ROOT / "docs" / "troubleshooting.md").read_text("utf-8")
    assert len(QUOTED.findall(page)) >= 15 and unknown(page, said) == []
    assert unknown("### `rank … is a teapot`\n", said) == ["rank … is a teapot"]
