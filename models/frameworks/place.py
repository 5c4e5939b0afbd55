"""Where in a user's own code something went wrong."""

import traceback
from pathlib import Path


def line_of(problem, *packages) -> str:
    """Return file, line and text of the last line of a traceback that is in none of these modules' folders. Local.

    Nor in another library's, such as flax's.
    """
    roots = tuple(str(Path(package.__file__).parent) for package in packages)
    frames = traceback.extract_tb(problem.__traceback__)
    theirs = [frame for frame in frames if not frame.filename.startswith(roots)
              and "site-packages" not in frame.filename] or frames
    return f"{Path(theirs[-1].filename).name}:{theirs[-1].lineno}: {theirs[-1].line}"
