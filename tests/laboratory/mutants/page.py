"""Write the code of known bugs into docs/bugs.md, each beside the right line: ``python -m mutants.page``."""

import inspect
import re
from pathlib import Path

from refimpl.conformance.space import codecs, mesh, owner
from refimpl.plain.encoding.encoded_steps import EncodedSteps
from refimpl.plain.model_parallel.mesh import Mesh
from refimpl.plain.without_barriers.owner import Owner

PAGE = Path(__file__).parents[3] / "docs" / "bugs.md"
BLOCK = re.compile(r"\n    <details><summary>The code.*?</details>\n", re.DOTALL)


def written(text: str) -> str:
    """Return the page, below each number the code of its bugs. Local."""
    for number, kinds in sorted(numbered().items()):
        item = re.compile(rf"^{number}\. .*?(?=^\d+\. |^## )", re.DOTALL | re.MULTILINE)
        text = item.sub(lambda found: f"{BLOCK.sub('', found[0]).rstrip()}\n{block(kinds)}\n", text)
    return text


def numbered() -> dict[int, list]:
    """Return number -> [(class of the bug, the plain class)]. Local."""
    found: dict[int, list] = {}
    for kinds, plain in ((owner.KINDS, Owner), (mesh.KINDS, Mesh), (codecs.KINDS, EncodedSteps)):
        for kind, number in kinds.items():
            if number:
                found.setdefault(number, []).append((kind, plain))
    return found


def block(kinds) -> str:
    """Return some bugs in code: each method of the plain class once, and its bugs below it. Local."""
    lines, shown = [], set()
    for kind, plain in kinds:
        for name in (name for name, method in vars(kind).items() if inspect.isfunction(method)):
            lines += [*([] if name in shown else code(getattr(plain, name))),
                      f"# {kind.__name__}: {first_sentence(kind)}", *code(getattr(kind, name)), ""]
            shown.add(name)
    body = "".join(f"    {line}\n" if line else "\n" for line in lines[:-1])
    return ("\n    <details><summary>The code: first right, then with the bug</summary>\n\n"
            f"    ```python\n{body}    ```\n\n    </details>\n")


def code(method) -> list[str]:
    """Return a method's lines, without its docstring. Local."""
    text = inspect.cleandoc("\n" + inspect.getsource(method))
    return re.sub(r'\n    """.*?"""\n', "\n", text, count=1, flags=re.DOTALL).splitlines()


def first_sentence(kind) -> str:
    """Return what is wrong, up to the first colon or stop. Local."""
    return re.split(r"[:.] |\.$|:$", " ".join(kind.__doc__.split()), maxsplit=1)[0]


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text("utf-8")), "utf-8")
