"""Numba compilation, kept on disk between processes, that no edit and no other process can make stale.

Numba's own cache looks only at the file of the function it compiled: where a kernel calls one of another file, an edit
or a pull of that file leaves the caller's old machine code in use. It also numbers its files, so that processes which
compile at once may take one for another. Here a file's name says what it was compiled from: all sources of this
package, the versions of the compilers, the signature and the processor. Files of other sources are removed.

To name files, this reaches into names that Numba keeps for itself (tried from 0.61 to 0.68). Where a later Numba has
them no more, kernels are compiled in every process: slower to start, and nothing else.
"""

import hashlib
from pathlib import Path

import llvmlite
import numba

try:
    from numba.core.caching import IndexDataCacheFile
except ImportError:
    IndexDataCacheFile = object

HERE = Path(__file__).parent
NAMEABLE = all(hasattr(IndexDataCacheFile, name) for name in ("_save_data", "_load_data"))
"""Whether this Numba lets files be named."""


def digest(*texts: str) -> str:
    """Return a short name for texts: other texts have another."""
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]


def _texts(for_gpu: bool) -> list[str]:
    """Return the names and texts of the sources of the GPU's kernels, or of all others."""
    return [text for path in sorted(HERE.rglob("*.py")) if ("cuda" in (path.stem, path.parent.name)) == for_gpu
            for text in (str(path.relative_to(HERE)), path.read_text())]


# Read before any kernel is imported: an edit made since can only cost a compilation, not keep an old one.
SOURCES = digest(numba.__version__, llvmlite.__version__, *_texts(for_gpu=False))
CUDA_SOURCES = digest(SOURCES, *_texts(for_gpu=True))
"""The GPU's kernels are told apart from these and from their own; no other kernel calls one of them."""


class _NamedFiles(IndexDataCacheFile):
    """A compiled function's files, one for each signature and processor; none is written twice with other contents."""

    def __init__(self, cache_path, function: str):
        super().__init__(cache_path, f"{function}-{SOURCES}", SOURCES)
        self.function = function

    def save(self, key, data):
        self._save_data(self._name(key), data)

    def load(self, key):
        try:
            return self._load_data(self._name(key))
        except OSError:  # not compiled yet, or removed
            return None

    def flush(self):
        for path in Path(self._cache_path).glob(f"{self.function}-{SOURCES}-*.nbc"):
            path.unlink(missing_ok=True)

    def _name(self, key):
        return f"{self.function}-{SOURCES}-{digest(repr(key))}.nbc"


def compiled(function=None, keep=True, **options):
    """Return ``function`` compiled by Numba, as ``njit`` does: without the GIL, dividing as NumPy does. A decorator.

    keep: whether machine code is kept on disk; not of what only becomes a part of other kernels, or has no file.
    options: further ones of ``njit``. For every kernel of this package, and for nothing else.
    """
    if function is None:
        return lambda given: compiled(given, keep, **options)
    options = {"nogil": True, "error_model": "numpy", **options}
    kernel = numba.njit(**options)(function)
    if keep and NAMEABLE and hasattr(kernel, "_cache"):  # else compilation is turned off (NUMBA_DISABLE_JIT)
        kept = numba.njit(cache=True, **options)(function)
        if _named(kept):
            return kept
    return kernel


def inlined(function):
    """Return a function that becomes a part of the kernels that call it; nothing of it is kept on disk. Local."""
    return compiled(function, keep=False, inline="always")


def _named(kernel) -> bool:
    """Give a kernel files with names of ours; return False if this Numba's cannot be given: they must not be used."""
    cache = kernel._cache
    if not hasattr(cache, "_cache_file"):  # setting one would be in vain
        return False
    try:
        cache._cache_file = _NamedFiles(cache.cache_path, cache._impl.filename_base)
    except AttributeError:
        return False
    return True


def _remove_files_of_other_sources():
    for path in (*HERE.rglob("__pycache__/*.nb[ci]"), *HERE.rglob("__pycache__/*.ptx")):
        if (CUDA_SOURCES if path.suffix == ".ptx" else SOURCES) not in path.name:
            try:
                path.unlink(missing_ok=True)
            except OSError:  # an installation for reading only
                return


_remove_files_of_other_sources()
