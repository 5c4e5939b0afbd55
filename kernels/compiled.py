"""Numba compilation with a cache on disk that is never stale.

Numba's own cache checks only the file of the compiled function. If a kernel calls a function of another file, and that
file changes, Numba still uses the old machine code. It also numbers its files, so processes that compile at the same
time may confuse them. Here the name of a cache file depends on everything from which it was compiled: all sources of
this package, the versions of the compilers, the signature and the processor. Files of older sources are removed.

This uses private names of Numba (tested from 0.61 to 0.68). If a later Numba lacks them, kernels are compiled in every
process. The start is then slower; nothing else changes.
"""

import contextlib
import hashlib
import time
from pathlib import Path

import llvmlite
import numba

try:
    import fcntl
except ImportError:  # Windows: each process compiles
    fcntl = None

try:
    from numba.core.caching import IndexDataCacheFile
    from numba.core.compiler_lock import global_compiler_lock
except ImportError:
    IndexDataCacheFile = object

HERE = Path(__file__).parent
SECONDS_TO_WAIT = 60.0  # for another process that compiles the same function: it may have been stopped
NAMEABLE = all(hasattr(IndexDataCacheFile, name) for name in ("_save_data", "_load_data"))
"""Whether this Numba lets us name its cache files."""


def digest(*texts: str) -> str:
    """Return a short hash of texts."""
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]


def _texts(for_gpu: bool) -> list[str]:
    """Return the names and texts of the sources of the GPU's kernels, or of all others."""
    return [text for path in sorted(HERE.rglob("*.py")) if ("cuda" in (path.stem, path.parent.name)) == for_gpu
            for text in (str(path.relative_to(HERE)), path.read_text())]


# Read before any kernel is imported, so a later edit can cost a compilation but never keep old machine code.
SOURCES = digest(numba.__version__, llvmlite.__version__, *_texts(for_gpu=False))
CUDA_SOURCES = digest(SOURCES, *_texts(for_gpu=True))
"""The hash for GPU kernels, which depend on both groups of sources. No other kernel calls a GPU kernel."""


class _NamedFiles(IndexDataCacheFile):
    """The cache files of a compiled function, one for each signature and processor. A file's contents never change."""

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
    """Return ``function`` compiled by Numba: like ``njit``, without the GIL, and dividing as NumPy does. A decorator.

    keep: whether to keep machine code on disk. It is False for functions that are inlined or that have no file.
    options: further options of ``njit``. Use it for every kernel of this package, and for nothing else.

    If several processes need the same function at the same time, one compiles it, and the others wait and load it.
    """
    if function is None:
        return lambda given: compiled(given, keep, **options)
    # no_cfunc_wrapper: nothing calls a kernel from C, and the wrapper is a tenth of the compilation
    options = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True, **options}
    kernel = numba.njit(**options)(function)
    if keep and NAMEABLE and hasattr(kernel, "_cache"):  # no _cache: compilation is off (NUMBA_DISABLE_JIT)
        kept = numba.njit(cache=True, **options)(function)
        if _named(kept):
            return kept
    return kernel


def inlined(function):
    """Return a function that is compiled as a part of the kernels that call it. It has no cache of its own. Local."""
    return compiled(function, keep=False, inline="always")


def _named(kernel) -> bool:
    """Give a kernel's cache files our names; return False if this Numba does not allow it."""
    cache = kernel._cache
    if not hasattr(cache, "_cache_file"):  # Numba would ignore it
        return False
    try:
        cache._cache_file = _NamedFiles(cache.cache_path, cache._impl.filename_base)
    except AttributeError:
        return False
    compile_or_load, held = kernel.compile, Path(cache.cache_path, f"{cache._impl.filename_base}-{SOURCES}.nbl")

    def compile_once(signature):
        with global_compiler_lock, _locked(held):  # in this order: another thread may compile what calls this
            return compile_or_load(signature)

    kernel.compile = compile_once
    return True


def _locked(path):
    """Return a file on which this process holds the lock. Closing it, or the end of the process, releases the lock.

    A process waits for another at most SECONDS_TO_WAIT, and not at all if files cannot be written or locked. While a
    kernel is compiled, the kernels that it calls are locked, too. No kernel calls itself, so there is no deadlock.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = open(path, "a")
    except OSError:  # a read-only installation
        return contextlib.nullcontext()
    end = time.monotonic() + SECONDS_TO_WAIT
    while fcntl and time.monotonic() < end:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            time.sleep(0.01)
        except OSError:  # a file system without locks
            break
    return file


def _remove_files_of_other_sources():
    for path in (*HERE.rglob("__pycache__/*.nb[cil]"), *HERE.rglob("__pycache__/*.ptx")):
        if (CUDA_SOURCES if path.suffix == ".ptx" else SOURCES) not in path.name:
            try:
                path.unlink(missing_ok=True)
            except OSError:  # a read-only installation
                return


_remove_files_of_other_sources()
