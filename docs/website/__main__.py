"""python -m docs.website [--output DIR]: build the site."""

import argparse
import sys
from pathlib import Path

from docs.website.build import build
from docs.website.check import problems
from docs.website.links import BrokenLink

ROOT = Path(__file__).parents[2]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m docs.website", description="Build the website.")
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "site", help="default: build/site")
    output = parser.parse_args().output
    try:
        pages = build(ROOT, output)
    except (BrokenLink, SyntaxError) as error:
        print(f"docs: {error}", file=sys.stderr)
        return 1
    found = problems(output)
    for problem in found:
        print(f"docs: {problem}", file=sys.stderr)
    print(f"{len(pages)} pages; open {output / 'index.html'}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
