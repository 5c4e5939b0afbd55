"""Execute notebooks: python -m refimpl.notebook store [NAME ...] or check [NAME ...].

store  executes each from a clean kernel and writes it back with its outputs, pictures and cluster results
check  executes each and fails on an error, on an exercise whose solution is not right, and on a stale output
"""

import argparse
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "notebooks"


def main(arguments=None) -> int:
    """Run the command line; return the exit status: 0, or 1 if a notebook failed. Local."""
    parser = argparse.ArgumentParser(prog="python -m refimpl.notebook", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["store", "check"])
    parser.add_argument("names", nargs="*", metavar="NAME",
                        help="a notebook's file, or how its name begins: 3 or 3_sparsity (default: all)")
    parser.add_argument("--jobs", type=int, default=1, metavar="N",
                        help="notebooks at once (default 1, as times should be measured)")
    asked = parser.parse_intermixed_args(arguments)  # --jobs may stand between names
    try:
        from refimpl.notebook.execute import check, store

        paths = chosen(asked.names, FOLDER)
    except (ImportError, ValueError) as problem:
        missing = isinstance(problem, ImportError) and f"{problem.name} is missing: pip install 'refimpl[notebooks]'"
        print(f"refimpl.notebook: error: {missing or problem}", file=sys.stderr)
        return 1
    with ProcessPoolExecutor(max(1, asked.jobs), get_context("spawn")) as pool:
        failed = 0
        for path, (problems, seconds) in zip(paths, pool.map(store if asked.action == "store" else check, paths)):
            failed |= bool(problems)
            print(f"{'FAILED' if problems else 'ok':6} {path.name} {seconds:6.1f} s", flush=True)
            for problem in problems:
                print(f"  {problem}", flush=True)
    return int(failed)


def chosen(names: list[str], folder: Path) -> list[Path]:
    """Return the notebooks that are asked for, in order; all of the folder if none is named. Local.

    Raises ValueError for a name that is none's.
    """
    if not names:
        return in_order(folder)
    paths = []
    for name in names:
        given = name.endswith(".ipynb") and Path(name).exists()
        begins = f"{name}_" if name.isdecimal() else name  # 1 is no beginning of 10
        found = [Path(name)] if given else [path for path in in_order(folder) if path.name.startswith(begins)]
        if not found:
            there = ", ".join(path.stem for path in in_order(folder))
            raise ValueError(f"no notebook {name!r}; there are {there}")
        paths += found
    return list(dict.fromkeys(paths))


def in_order(folder: Path) -> list[Path]:
    """Return the notebooks of a folder in the order of their numbers, 10 after 9. Local."""
    return sorted(folder.glob("*.ipynb"), key=lambda path: (len(path.name.partition("_")[0]), path.name))


if __name__ == "__main__":
    sys.exit(main())
