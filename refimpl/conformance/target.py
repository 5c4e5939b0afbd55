"""An adapter: a module with a handful of functions that run an implementation on given inputs.

Every rank calls the same functions in the same order; rank and size are those of the adapter's own world. The suite
skips functions that an adapter lacks. docs/conformance.md lists the functions and their rules. ``adapters.reference``
shows the arguments of each.

LAUNCHER = "mpi" (the default), "processes" (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT are set, as torchrun does) or
"local" (``for_world(world)`` returns an object with the functions; ranks are threads) says how ranks are started.
"""

import ast
import importlib
import importlib.util
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from refimpl.conformance.case import Case, Rows
from refimpl.conformance.kinds import KINDS
from refimpl.conformance.semantics import Semantics

LAUNCHERS = ("mpi", "processes", "local")


@dataclass
class Answer:
    """What one rank gave in a case: steps, or an error it raised, or why the case was skipped.

    steps: step by step, name -> array or Rows.  error: "" or its type and text.
    """

    steps: list[dict[str, Any]] = field(default_factory=list)
    error: str = ""
    skipped: str = ""


class Target:
    """An adapter on one rank. functions: a module, or an object, that has the protocol's functions.

    Raises ValueError where the manifest is wrong or missing.
    """

    def __init__(self, functions):
        self.functions = functions
        if not hasattr(functions, "describe"):
            raise ValueError(f"{getattr(functions, '__name__', type(functions).__name__)} has no describe(): it must "
                             "return the manifest, e.g. {'format': 1, 'dense': 'average', 'sparse': 'average'}")
        manifest = functions.describe()
        self.semantics = manifest if isinstance(manifest, Semantics) else Semantics.from_json(manifest)

    def answer(self, case: Case, rank: int) -> Answer:
        """Run a case; an exception or exit becomes the answer's error. Collective, if the adapter's functions are."""
        kind = KINDS[case.kind]
        missing = next((name for name in kind.functions if not hasattr(self.functions, name)), None)
        if reason := f"the adapter has no {missing}" if missing else unsupported(case, self.semantics):
            return Answer(skipped=reason)
        try:
            return Answer(kind.call(tuple(getattr(self.functions, name) for name in kind.functions), case, rank))
        except (Exception, SystemExit) as problem:  # an adapter that exits must not take the run with it
            said = f"{type(problem).__name__}: {problem}"  # some frameworks append pages
            return Answer(error=said if len(said) <= 300 else said[:300].rsplit(" ", 1)[0] + " ...")


def unsupported(case: Case, semantics: Semantics) -> str:
    """Return what of the manifest makes a case pointless, "" if nothing does. Local."""
    for variable in case.variables:
        if variable.dtype not in semantics.dtypes:
            return f"the manifest's dtypes leave out {variable.dtype}"
        if variable.sparse and semantics.most_rows is not None and variable.shape[0] > semantics.most_rows:
            return f"the manifest's most_rows is {semantics.most_rows}, {variable.name} has {variable.shape[0]}"
    for need in case.needs:
        if need not in semantics.supports:
            return f"the manifest's supports leaves out {need}"
    for name, values in case.settings.get("only", {}).items():
        if getattr(semantics, name) not in values:
            return f"the manifest says {name} = {getattr(semantics, name)}"
    if case.kind == "fusion" and semantics.fusion_bytes is None:
        return "the manifest's fusion_bytes is null"
    return ""


def load(name: str):
    """Import an adapter. Raises ValueError naming what is missing."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as problem:
        if not f"{name}.".startswith(f"{problem.name}."):
            raise ValueError(f"the adapter {name} needs {problem.name}, which is not installed") from problem
        raise ValueError(f"no adapter {name}: {problem}; give the name of a module on PYTHONPATH, like my_adapter") \
            from problem


def launcher_of(name: str) -> str:
    """Return an adapter's LAUNCHER without importing it: an import could start MPI or load a framework. Local."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        spec = None
    if spec is None or not spec.has_location:
        raise ValueError(f"no adapter {name}: give the name of a module on PYTHONPATH, like my_adapter")
    found = "mpi"
    for statement in ast.parse(Path(spec.origin).read_text()).body:
        names = [t.id for t in getattr(statement, "targets", []) if isinstance(t, ast.Name)]
        if names == ["LAUNCHER"] and isinstance(statement.value, ast.Constant):
            found = statement.value.value
    if found not in LAUNCHERS:
        raise ValueError(f"{name}: LAUNCHER is {found!r}; there are {', '.join(LAUNCHERS)}")
    return found


def save(folder: Path, number: int, rank: int, answer: Answer):
    """Write an answer, whole or not at all, its arrays without pickle. Local.

    An array's name is "STEP ROLE NAME", ROLE being ids, rows or array.
    """
    arrays = {f"{step} {role} {name}": array for step, parts in enumerate(answer.steps) for name, part in parts.items()
              for role, array in (part._asdict().items() if isinstance(part, Rows) else [("array", part)])}
    temporary = folder / f"{number}-{rank}.part.npz"
    np.savez(temporary, said=json.dumps([len(answer.steps), answer.error, answer.skipped]), **arrays)
    os.replace(temporary, folder / f"{number}-{rank}.npz")


def read(folder: Path, number: int, rank: int) -> Answer | None:
    """Return an answer, None if the rank never gave one. Local."""
    path = folder / f"{number}-{rank}.npz"
    if not path.exists():
        return None
    with np.load(path, allow_pickle=False) as arrays:
        steps, *said = json.loads(str(arrays["said"]))
        answer = Answer([{} for _ in range(steps)], *said)
        for step, role, name in (key.split(" ", 2) for key in arrays.files if key != "said"):
            if role != "rows":
                found = arrays[f"{step} {role} {name}"]
                answer.steps[int(step)][name] = Rows(found, arrays[f"{step} rows {name}"]) if role == "ids" else found
    return answer
