"""The line of a user's own code at which an error occurred."""

import traceback
from pathlib import Path


def line_of(problem, *packages) -> str:
    """Return file, line and text of a traceback's last line that is not in the folders of these modules. Local.

    Lines in other libraries, such as flax, are left out, too.
    """
    roots = tuple(str(Path(package.__file__).parent) for package in packages)
    frames = traceback.extract_tb(problem.__traceback__)
    theirs = [frame for frame in frames if not frame.filename.startswith(roots)
              and "site-packages" not in frame.filename] or frames
    return f"{Path(theirs[-1].filename).name}:{theirs[-1].lineno}: {theirs[-1].line}"
