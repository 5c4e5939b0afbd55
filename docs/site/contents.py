"""Cards that lead to the lessons and the guides, in Markdown, made of what these say of themselves."""

import json
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GUIDES = "README", "docs/follow-a-step", "docs/design", "docs/paper", "docs/guide", "docs/conformance", "docs/gpu"
"""The guides in the order of reading; those not written yet are left out, others come after these."""
NAMES = {"README.md": "Overview"}


def lessons() -> list[Path]:
    """Return the notebooks in the order of their numbers, 10 after 9."""
    return sorted(ROOT.glob("notebooks/*.ipynb"), key=lambda path: int(path.name.partition("_")[0]))


def guides() -> list[Path]:
    first = [ROOT / f"{name}.md" for name in GUIDES]
    rest = set(ROOT.glob("docs/*.md")) - {*first, ROOT / "docs" / "index.md"}
    return [path for path in first if path.is_file()] + sorted(rest)


def document(path: Path) -> str:
    return f"/{path.relative_to(ROOT).with_suffix('')}"


def card(path: Path) -> str:
    """Return the card of one document: title, opening, and a picture if it is a notebook that shows one."""
    text, options = path.read_text("utf-8"), f":link: {document(path)}\n:link-type: doc\n"
    if path.suffix == ".ipynb":
        pictures = re.findall(r'src=\\"(pictures/[^\\]+)\\" alt=\\"([^\\]*)\\"', text)
        if pictures:
            name, alt = max(pictures, key=lambda picture: "moving" in picture[0])
            options += f":img-top: /notebooks/{name}\n:img-alt: {alt}\n"
        text = "".join(json.loads(text)["cells"][0]["source"])
    title, opening = (text + "\n\n").split("\n\n")[:2]
    plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", opening).strip("*")
    shown = re.match(r".{90,}?[.?](?=\s)|.*", plain, re.DOTALL)[0]  # a sentence, or as many as make two lines
    return f":::{{grid-item-card}} {NAMES.get(path.name, title.lstrip('# '))}\n{options}\n{shown}\n:::\n"


def fill(app, docname, source):
    """Put the cards, and what gives their documents a place in the navigation, where a page asks for them."""
    for name, paths in (("lessons", lessons()), ("guides", guides())):
        cards = "\n".join(map(card, paths))
        grid = f"::::{{grid}} 1 2 2 3\n:gutter: 3\n\n{cards}::::\n"
        entries = "\n".join(f"{NAMES[path.name]} <{document(path)}>" if path.name in NAMES else document(path)
                            for path in paths)
        toctree = f":::{{toctree}}\n:hidden:\n{entries}\n:::\n"
        source[0] = source[0].replace(f"<!-- cards: {name} -->", grid).replace(f"<!-- contents: {name} -->", toctree)


def without_magics(source: str) -> tuple[str, str]:
    """Return a cell as it is shown, and as the Python in which names are looked up: %%ranks 4 is none."""
    return source, re.sub(r"^%.*", "pass", source, flags=re.MULTILINE)


def setup(app):
    app.connect("source-read", fill)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
