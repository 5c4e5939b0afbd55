"""Execute lessons and store them with their outputs: python -m refimpl.notebook store [NAME ...]. `make test-notebooks`
compares the stored outputs with those of a new execution.
"""

import argparse
import sys
import time
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "notebooks"


def main(arguments=None) -> int:
    """Run the command line; return the exit status: 0, or 1 if a notebook failed. Local."""
    parser = argparse.ArgumentParser(prog="python -m refimpl.notebook", description=__doc__)
    parser.add_argument("action", choices=["store"])
    parser.add_argument("names", nargs="*", metavar="NAME",
                        help="a notebook's file, or how its name begins: 3 or 3_sparsity (default: all)")
    asked = parser.parse_args(arguments)
    try:
        paths = chosen(asked.names, FOLDER)
        from refimpl.notebook.execute import store
    except (ImportError, ValueError) as problem:
        missing = isinstance(problem, ImportError) and f"{problem.name} is missing: pip install 'refimpl[notebooks]'"
        print(f"refimpl.notebook: error: {missing or problem}", file=sys.stderr)
        return 1
    failed = False
    for path in paths:
        begin = time.monotonic()
        problems = store(path)
        failed |= bool(problems)
        said = f"{'FAILED' if problems else 'ok':6} {path.name} {time.monotonic() - begin:6.1f} s"
        print(said, *problems, sep="\n  ", flush=True)
    return int(failed)


def in_order(folder: Path) -> list[Path]:
    """Return the notebooks of a folder sorted by their numbers, 10 after 9. Local."""
    return sorted(folder.glob("*.ipynb"), key=lambda path: (len(path.name.partition("_")[0]), path.name))


def chosen(names: list[str], folder: Path) -> list[Path]:
    """Return the named notebooks, in order; all notebooks of the folder if there are no names. Local.

    Raises ValueError for a name that no notebook has.
    """
    there, paths = in_order(folder), []
    for name in names:
        begins = f"{name}_" if name.isdecimal() else name  # so that 1 does not match 10
        found = [Path(name)] if Path(name).is_file() else [path for path in there if path.name.startswith(begins)]
        if not found:
            raise ValueError(f"no notebook {name!r}; there are {', '.join(path.stem for path in there)}")
        paths += found
    return list(dict.fromkeys(paths)) if names else there


if __name__ == "__main__":
    sys.exit(main())
