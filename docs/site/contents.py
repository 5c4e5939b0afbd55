"""Cards that lead to the lessons and the guides, in Markdown, made of what these say of themselves."""

import json
import os
import re
import subprocess
from pathlib import Path

from num2words import num2words

import commands

ROOT = Path(__file__).resolve().parents[2]
GUIDES = {
    "Start": ("README", "docs/installation", "docs/troubleshooting", "docs/faq"),
    "Use": ("docs/training", "docs/torch", "docs/jax", "docs/own-model", "docs/plan", "docs/gpu", "docs/clusters",
            "docs/survival", "docs/without-barriers", "docs/svm", "docs/experiments", "docs/command-line"),
    "Validate": ("docs/guide", "docs/conformance", "docs/bugs", "docs/findings"),
    "Teach": ("docs/teaching", "docs/paper", "docs/glossary"),
    "Internals": ("docs/follow-a-step", "docs/design", "docs/measured"),
}
"""What a reader wants to do -> the guides for it, in the order of reading. Every page of docs is in one of them."""
NAMES = {"README.md": "Overview"}
TAKES = re.compile(r"\*(About (\d+) minutes\. Builds on .+?)\*(?=\n|$)", re.DOTALL)
"""How long a lesson takes and what comes before it, as the lesson itself says."""


def published(root: Path = ROOT) -> str:
    """Return owner/name on GitHub, which Binder needs: REPOSITORY, or else where ``root`` was cloned from. May be "".
    """
    if "REPOSITORY" in os.environ:
        return os.environ["REPOSITORY"]
    try:
        origin = subprocess.run(["git", "-C", str(root), "config", "remote.origin.url"], capture_output=True, text=True)
    except OSError:  # git is not installed
        return ""
    found = re.search(r"github\.com[:/]([\w.-]+/[\w.-]+?)(\.git)?/?$", origin.stdout.strip())
    return found[1] if found else ""


def lessons() -> list[Path]:
    """Return the notebooks in the order of their numbers, 10 after 9."""
    return sorted(ROOT.glob("notebooks/*.ipynb"), key=lambda path: int(path.name.partition("_")[0]))


def guides(group: str) -> list[Path]:
    """Return the guides of a group that there are."""
    return [path for name in GUIDES[group] if (path := ROOT / f"{name}.md").is_file()]


def document(path: Path) -> str:
    return f"/{path.relative_to(ROOT).with_suffix('')}"


def opening(path: Path) -> str:
    """Return the text that a lesson or guide begins with."""
    text = path.read_text("utf-8")
    return "".join(json.loads(text)["cells"][0]["source"]) if path.suffix == ".ipynb" else text


def without_links(text: str) -> str:
    return re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text)


def length(paths: list[Path]) -> str:
    """Return how many lessons there are and, as far as all say so, how long they take."""
    minutes = [int(found[2]) for path in paths if (found := TAKES.search(opening(path)))]
    words = f"{num2words(len(paths)).capitalize()} notebooks"
    return words + (f" of {min(minutes)} to {max(minutes)} minutes each" if len(minutes) == len(paths) else "")


def card(path: Path) -> str:
    """Return the card of one document: title, question; of a lesson a picture, if it shows one, and how long it is."""
    options, text = f":link: {document(path)}\n:link-type: doc\n", opening(path)
    if path.suffix == ".ipynb":
        pictures = re.findall(r'src=\\"(pictures/[^\\]+)\\" alt=\\"([^\\]*)\\"', path.read_text("utf-8"))
        if pictures:
            name, alt = max(pictures, key=lambda picture: "moving" in picture[0])
            options += f":img-top: /notebooks/{name}\n:img-alt: {alt}\n"
    takes = TAKES.search(text)
    title, question = (TAKES.sub("", text) + "\n\n").split("\n\n")[:2]
    plain = without_links(question).strip("*\n")
    footer = f"\n:::{{card-footer}}\n{without_links(takes[1])}\n:::" if takes else ""
    shown = re.match(r".{90,}?[.?](?=\s)|.*", plain, re.DOTALL)[0]  # a sentence, or as many as make two lines
    return f"::::{{grid-item-card}} {NAMES.get(path.name, title.lstrip('# '))}\n{options}\n{shown}{footer}\n::::\n"


def grid(paths: list[Path]) -> str:
    """Return the cards of some documents."""
    cards = "\n".join(map(card, paths))
    return f":::::{{grid}} 1 2 2 3\n:gutter: 3\n\n{cards}:::::\n"


def tree(paths: list[Path], caption: str = "") -> str:
    """Return what gives documents a place in the navigation."""
    entries = "\n".join(f"{NAMES[path.name]} <{document(path)}>" if path.name in NAMES else document(path)
                        for path in paths)
    return f":::{{toctree}}\n:hidden:\n{f':caption: {caption}{chr(10)}' if caption else ''}{entries}\n:::\n"


def fill(app, docname, source):
    """Put the cards, the navigation and the command line where a page asks for them."""
    texts = {"cards: lessons": lambda: grid(lessons()), "contents: lessons": lambda: tree(lessons()),
             "length: lessons": lambda: length(lessons()), "command line": commands.markdown,
             "cards: guides": lambda: "\n".join(f"## {group}\n\n{grid(guides(group))}" for group in GUIDES),
             "contents: guides": lambda: "\n".join(tree(guides(group), group) for group in GUIDES)}
    for mark, text in texts.items():
        if f"<!-- {mark} -->" in source[0]:
            source[0] = source[0].replace(f"<!-- {mark} -->", text())


def without_magics(source: str) -> tuple[str, str]:
    """Return a cell as it is shown, and as the Python in which names are looked up: %%ranks 4 is none."""
    return source, re.sub(r"^%.*", "pass", source, flags=re.MULTILINE)


def setup(app):
    app.connect("source-read", fill)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
