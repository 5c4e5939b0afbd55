"""The cell magics: %%ranks runs a cell on several ranks, %%everywhere in the notebook and on all later ranks."""

import ast

from IPython.core.magic import Magics, cell_magic, magics_class
from IPython.core.magic_arguments import argument, magic_arguments, parse_argstring

from refimpl.notebook.ranks import SECONDS, run_on_ranks


@magics_class
class RankMagics(Magics):
    """The magics of one notebook, and the cells that run first on its ranks."""

    def __init__(self, shell):
        super().__init__(shell)
        self.everywhere_cells: dict[frozenset, str] = {}

    @magic_arguments()
    @argument("ranks", type=int, help="how many ranks")
    @argument("--take", nargs="+", default=[], metavar="NAME", help="values of the notebook that the ranks get")
    @argument("--timeout", type=float, default=SECONDS, help="seconds after which the ranks are ended")
    @argument("--rate", default="", help="each rank on an emulated machine, with a card of this rate: 200mbit")
    @argument("--stored", default="", metavar="NAME", help="the stored result for where no machines can be emulated")
    @argument("--keep", action="store_true", help="show the stored result wherever there is one")
    @cell_magic
    def ranks(self, line, cell):
        """Run the cell on ranks of real MPI, with comm, rank and size; give(name=value) on rank 0 sets names here."""
        asked = parse_argstring(self.ranks, line)
        if unknown := [name for name in asked.take if name not in self.shell.user_ns]:
            raise NameError(f"the notebook has no {', '.join(unknown)} that the ranks could take")
        values = {name: self.shell.user_ns[name] for name in asked.take}
        done = run_on_ranks(asked.ranks, cell, "\n".join(self.everywhere_cells.values()), values, asked.timeout,
                            asked.rate, asked.stored, asked.keep)
        print(done, end="")
        self.shell.user_ns.update(done.given)

    @cell_magic
    def everywhere(self, line, cell):
        """Run the cell here, and at the start of each later %%ranks cell on its ranks: for imports and definitions."""
        if line.strip():
            raise ValueError(f"%%everywhere stands alone in its line: write {line.strip()!r} below it")
        self.shell.run_cell(cell).raise_error()
        names = frozenset(bound_names(cell))
        kept = {old: text for old, text in self.everywhere_cells.items() if not (old & names) or not names}
        self.everywhere_cells = {**kept, names: cell}


def bound_names(source: str) -> list[str]:
    """List the names that a cell defines: functions, classes, assigned names; if it has none, its imports."""
    body = ast.parse(source).body
    defined = [node.name for node in body if isinstance(node, (ast.FunctionDef, ast.ClassDef))]
    defined += [target.id for node in body if isinstance(node, ast.Assign) for target in node.targets
                if isinstance(target, ast.Name)]
    return defined or [name.name for node in body if isinstance(node, (ast.Import, ast.ImportFrom))
                       for name in node.names]
