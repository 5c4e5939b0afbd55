"""Compiled kernels on disk: reused while nothing changes, never used when a file that a kernel calls has changed."""

import fcntl
import importlib
import pkgutil
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import kernels
from kernels.compiled import SOURCES

CALLEE = """
from {module} import {decorator}

@{decorator}{options}
def term(x):
    return x + {number}
"""
CALLER = """
from {module} import {decorator}
from kernels.callee import term

@{decorator}{options}
def total(x):
    return 10 * term(x)
"""
OURS = {"module": "kernels.compiled", "decorator": "compiled", "options": ""}
NUMBAS = {"module": "numba", "decorator": "njit", "options": "(cache=True)"}


def write(folder, how, number):
    (folder / "callee.py").write_text(CALLEE.format(**how, number=number))
    if not (folder / "caller.py").exists():  # its time stays: to some Numbas a later one is a change
        (folder / "caller.py").write_text(CALLER.format(**how))


def run(folder, arguments="1"):
    """Return (the caller's result, how many of its compilations were found on disk), in a process of its own."""
    program = f"from kernels.caller import total; print(total({arguments}), sum(total.stats.cache_hits.values()))"
    done = subprocess.run([sys.executable, "-c", program], cwd=folder.parent, env={"PYTHONPATH": str(folder.parent)},
                          capture_output=True, text=True, timeout=120)
    assert not done.returncode, done.stderr
    result, found = done.stdout.split()
    return float(result), int(found)


@pytest.fixture
def package(tmp_path):
    """A package of kernels of its own, with our compilation."""
    folder = tmp_path / "kernels"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    shutil.copy(Path(kernels.__file__).with_name("compiled.py"), folder)
    return folder


@pytest.mark.thorough
def test_a_caller_is_compiled_anew_when_what_it_calls_has_changed(package):
    write(package, OURS, 1)
    assert run(package) == (20, 0)
    assert run(package) == (20, 1)
    assert run(package, "1.5") == (25, 0)
    assert run(package) == (20, 1), "a second signature must leave the first alone"
    write(package, OURS, 2)
    assert run(package) == (30, 0)
    left = [path.name for path in package.rglob("*.nb[cil]")]
    assert len(left) == 4, f"files of other sources must be removed, there are {left}"


def test_processes_that_need_a_function_together_compile_it_once(package):
    write(package, OURS, 1)
    with ThreadPoolExecutor() as pool:
        assert sorted(pool.map(run, [package] * 2)) == [(20, 0), (20, 1)]


def test_a_process_waits_for_the_one_that_compiles_but_not_for_ever(package):
    (package / "__init__.py").write_text("import kernels.compiled as c; c.SECONDS_TO_WAIT = 0.5")
    write(package, OURS, 1)
    assert run(package) == (20, 0)
    locks = [open(path) for path in package.rglob("*.nbl")]
    assert len(locks) == 2  # of the caller, and of what it calls
    for lock in locks:
        fcntl.flock(lock, fcntl.LOCK_EX)  # as a process would that was stopped while it compiles
    assert run(package, "1.5") == (25, 0)
    for lock in locks:
        lock.close()


@pytest.mark.thorough
def test_numbas_own_cache_would_answer_from_the_old_callee(package):
    write(package, NUMBAS, 1)
    run(package)
    write(package, NUMBAS, 2)
    assert run(package) == (20, 1), "Numba looks at callees now: kernels.compiled may go"


def test_every_kernel_is_compiled_so():
    home = Path(kernels.__file__).parent
    for path in home.rglob("*.py"):
        if path.name != "compiled.py":
            assert not re.search(r"\bn?jit\(|@n?jit|\bvectorize\b|cache=True", path.read_text()), path
    for module in pkgutil.walk_packages(kernels.__path__, "kernels."):
        for kernel in vars(importlib.import_module(module.name)).values():
            if hasattr(kernel, "py_func") and kernel.targetoptions.get("inline") != "always":  # a part of its callers
                assert SOURCES in kernel._cache._cache_file._name("any"), kernel


@pytest.mark.parametrize("lacks", [
    "import numba.core.caching as c; del c.IndexDataCacheFile",
    "import numba.core.caching as c; del c.IndexDataCacheFile._load_data",
    "import numba.core.dispatcher as d; d.Dispatcher.enable_caching = lambda self: None",  # it keeps a NullCache
])
@pytest.mark.thorough("enable_caching")
def test_a_numba_without_the_names_reached_into_compiles_in_every_process(package, lacks):
    (package / "__init__.py").write_text(lacks)
    write(package, OURS, 1)
    assert run(package) == (20, 0)
    write(package, OURS, 2)
    assert run(package) == (30, 0)
    assert not list(package.rglob("*.nb[ci]"))
