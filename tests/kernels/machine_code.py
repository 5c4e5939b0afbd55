"""What makes a GPU's kernel slow without being wrong, seen in its PTX and in what NVIDIA's assembler says of it."""

import importlib.util
import re
import shutil
import subprocess
from pathlib import Path

SUMS_IN_FLOAT64 = {"score", "sum_of_exponentials", "product_of_rows"}
"""Kernels of float32 arguments that add in float64, for the sake of their sums."""

STRIDED = {"add_every", "add_places", "add_squares", "add_gradients", "add_segments"}
"""Kernels whose threads walk in strides: a division of 64 bits counts a thread's rounds, once."""

DOUBLE = re.compile(r"\b(?!ld|st|mov|bar)\w+[.\w]*\.f64\b[^;]*;")
DIVISION = re.compile(r"\b(?:div|rem)\.[su]64\b[^;]*;")
LOCAL = re.compile(r"\b(?:ld|st)\.local\b[^;]*;")


def assembled(text: str, folder) -> str | None:
    """Return what NVIDIA's assembler says of PTX for sm_90, which it takes; None where it is not installed."""
    package = importlib.util.find_spec("nvidia")
    places = package.submodule_search_locations if package else ()
    found = [str(path) for place in places for path in Path(place).glob("*/bin/ptxas")]
    program = found[0] if found else shutil.which("ptxas")
    if not program:
        return None
    path = folder / "kernel.ptx"
    path.write_text(text)
    run = subprocess.run([program, "-v", "-arch=sm_90", str(path), "-o", str(path.with_suffix(".cubin"))],
                         capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stderr


def slow(kernel, kinds, text: str, told: str | None) -> list[str]:
    """Return what makes a kernel slow, in words. text: its PTX for arguments of these kinds.  told: ``assembled``."""
    found = []
    if "d" not in "".join(kinds) and kernel.name not in SUMS_IN_FLOAT64:
        found += [f"float64 among float32: {one}" for one in DOUBLE.findall(text)[:1]]
    if kernel.finish is None and kernel.name not in STRIDED:
        found += [f"a division of 64 bits for each element: {one}" for one in DIVISION.findall(text)[:1]]
    found += [f"local memory: {one}" for one in LOCAL.findall(text)[:1]]
    if told is not None:
        stack, stores, loads = map(int, re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes",
                                                  told).groups())
        found += [f"registers are spilled: {stores} bytes out, {loads} in"] * (stores + loads > 0)
        found += [f"{stack} bytes on the stack"] * (stack > 0)
    return found
