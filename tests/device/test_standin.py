"""The stand-in for CuPy refuses what CuPy refuses, counts what crosses the bus, and has no names that CuPy lacks."""

import importlib
import importlib.util
import subprocess
import sys
from operator import iadd
from pathlib import Path

import numpy as np
import pytest

STANDIN = Path(__file__).parent / "standin"
OWN = {"standin"}  # names beside CuPy's


@pytest.fixture
def xp(cupy, standin):
    return cupy


def write(target, value):
    target[:2] = value[:2]


REFUSED = {
    "d + h": lambda xp, d, h: d + h, "h + d": lambda xp, d, h: h + d, "np.add": lambda xp, d, h: np.add(d, h),
    "xp.add": lambda xp, d, h: xp.add(d, h), "concatenate": lambda xp, d, h: xp.concatenate([d, h]),
    "asarray": lambda xp, d, h: np.asarray(d), "array": lambda xp, d, h: np.array(d),
    "d[:] = h": lambda xp, d, h: write(d, h), "h[:] = d": lambda xp, d, h: write(h, d),
    "h += d": lambda xp, d, h: iadd(h, d), "d += h": lambda xp, d, h: iadd(d, h),
    "d[h]": lambda xp, d, h: d[np.arange(2)], "out=": lambda xp, d, h: np.exp(d, out=h),
    "d == h": lambda xp, d, h: d == h, "where": lambda xp, d, h: xp.where(d > 0, d, h),
    "set": lambda xp, d, h: d.set(xp.ones(3)), "get(out)": lambda xp, d, h: d.get(out=xp.ones(3)),
    "d @ h": lambda xp, d, h: d @ h,
}
"""What must be a TypeError. A host array h and a device array d have one shape."""


@pytest.mark.parametrize("name", REFUSED)
def test_host_and_device_never_meet(xp, name):
    with pytest.raises(TypeError):
        REFUSED[name](xp, xp.ones(3), np.ones(3))


def test_zero_clears_memory_whatever_its_sign(xp):
    """As in CuPy, where x[...] = -0.0 is 0.0, and asarray of an array without axes is such a fill."""
    x = xp.ones(2)
    for zero, is_negative in ((-0.0, False), (xp.asarray(np.array(-0.0)), False), (xp.asarray(np.full(1, -0.0)), True)):
        x[...] = zero
        assert (np.signbit(x.get()) == is_negative).all()


@pytest.mark.parametrize("work, crossing", [
    (lambda xp: xp.asarray(np.ones(3)), ("to_device", 24)),
    (lambda xp: xp.ones(3).set(np.ones(3)), ("to_device", 24)),
    (lambda xp: xp.ones(3).get(), ("to_host", 24)),
    (lambda xp: xp.asnumpy(xp.ones(3)), ("to_host", 24)),
    (lambda xp: float(xp.ones(3).sum()), ("number", 8)),
    (lambda xp: bool(xp.ones(3).all()), ("number", 1)),
    (lambda xp: xp.ones(3).max().item(), ("number", 8)),
    (lambda xp: xp.unique(xp.ones(3)), ("number", 8)),
    (lambda xp: xp.ones(3)[xp.ones(3) > 0], ("number", 8)),
    (lambda xp: xp.flatnonzero(xp.ones(3)), ("number", 8)),
])
def test_each_crossing_is_counted(xp, work, crossing):
    with xp.standin.counting() as count:
        work(xp)
    assert [(one.kind, one.nbytes) for one in count.all] == [crossing]
    assert count.all[0].where.startswith("device/test_standin.py:")


def test_what_stays_on_the_device_is_not_counted(xp):
    a = xp.arange(12.0).reshape(3, 4)
    with xp.standin.counting() as count:
        b = np.exp(a) * np.float64(2) + 1
        b[1:] -= a[:2]
        b[xp.arange(2)] = xp.concatenate([a, b])[:2].T[::-1].T
        assert b.sum(axis=0).shape == (4,) and len(b) == 3 and [row.shape for row in b] == [(4,)] * 3
    assert not count.all


def test_views_share_memory_and_copies_do_not(xp):
    a = xp.zeros((2, 3))
    a[1].T[...] = 1
    assert a.get().tolist() == [[0, 0, 0], [1, 1, 1]]
    assert a[1:].data.ptr == a.data.ptr + 24 and a[1:].data.mem is a.data.mem
    assert a.copy().data.mem is not a.data.mem and a.astype(float, copy=False) is a


@pytest.mark.parametrize("work", [
    lambda xp: xp.add.at(xp.zeros(3), xp.asarray([1, 1]), 1.0),
    lambda xp: xp.bincount(xp.asarray([1, 1]), weights=xp.ones(2)),
    lambda xp: xp.zeros(3).__setitem__(xp.asarray([1, 1]), xp.arange(2.0)),
])
def test_what_has_no_fixed_order_is_refused(xp, work):
    with pytest.raises(AssertionError, match="not the same bits twice"):
        work(xp)


def test_memory_is_counted_given_back_and_limited(xp):
    pool = xp.get_default_memory_pool()
    before = pool.used_bytes()
    a = xp.zeros(100)
    view = a[3:]
    del a
    assert pool.used_bytes() == before + 800
    del view
    assert pool.used_bytes() == before
    pool.set_limit(before + 100)
    try:
        with pytest.raises(xp.cuda.memory.OutOfMemoryError, match="Out of memory allocating 800 bytes"):
            xp.zeros(100)
    finally:
        pool.set_limit(0)
    assert pool.used_bytes() == before


def test_an_address_is_memory(xp):
    pointer = xp.cuda.alloc(48)
    a = xp.ndarray((3,), np.float64, pointer + 8)
    a[...] = 7
    assert a.data.ptr == pointer.ptr + 8 and xp.ndarray((6,), np.float64, pointer)[1:4].get().tolist() == [7, 7, 7]


NAMES = """
import cupy
def names(room):
    return {name for name in dir(room) if not name.startswith("_")}
print(*sorted(f"cupy.{name}" for name in names(cupy)), *sorted(f"cupy.cuda.{name}" for name in names(cupy.cuda)),
      *sorted(f"cupy.cuda.runtime.{name}" for name in names(cupy.cuda.runtime)),
      *sorted(f"cupy.ndarray.{name}" for name in names(cupy.ndarray)))
"""
PYTHONS_OWN = {"ctypes", "os", "threading", "time", "contextlib", "np", "standin", "queues", "CONSTANTS", "DTYPES",
               "array_names", "function", "ufunc_names"}


def names_of(path):
    return set(subprocess.run([sys.executable, "-c", NAMES], cwd=path, capture_output=True, text=True,
                              check=True).stdout.split())


def has_cupy():
    found = importlib.util.find_spec("cupy")
    return found is not None and "standin" not in str(found.origin)


@pytest.mark.skipif(not has_cupy(), reason="CuPy is not installed")
def test_every_name_is_one_of_cupys(tmp_path):
    ours = {name for name in names_of(STANDIN) if name.rpartition(".")[2] not in PYTHONS_OWN}
    assert not ours - names_of(tmp_path)


KEYWORDS = STANDIN / "cupy" / "keywords.json"
LOOK_AT_KEYWORDS = """
import inspect, json, sys, warnings
warnings.simplefilter("ignore")
import cupy

def keywords(function):
    if isinstance(function, cupy.ufunc):
        return {"casting", "dtype", "out"}
    try:
        return {one.name for one in inspect.signature(function).parameters.values()}
    except ValueError:  # compiled: the first line of its text that has them
        line = next(line for line in function.__doc__.splitlines() if "(" in line)
        words = line.split("(", 1)[1].rsplit(")", 1)[0].split(",")
        return {word.split("=")[0].split()[-1] for word in words if word.strip()}

for kind, table in json.load(open(sys.argv[1])).items():
    for name, words in table.items():
        missing = set(words.split()) - keywords(getattr(cupy if kind == "functions" else cupy.ndarray, name))
        if missing:
            print(kind, name, *missing)
"""


@pytest.mark.parametrize("work", [
    lambda xp: xp.max(xp.ones(3), initial=0), lambda xp: xp.ones(3).sum(where=xp.ones(3) > 0),
    lambda xp: np.exp(xp.ones(3), where=True), lambda xp: xp.ones(3).max(initial=0.0),
    lambda xp: xp.empty(3, like=xp.ones(3)), lambda xp: xp.sort(xp.ones(3), order=None)])
def test_what_only_numpy_takes_is_refused(xp, work):
    with pytest.raises(TypeError, match="CuPy's .* takes no (initial|where|like|order); it takes"):
        work(xp)


def test_what_cupy_takes_is_taken(xp):
    assert xp.max(xp.ones((2, 3)), axis=1, keepdims=True).shape == (2, 1)
    assert xp.ones(3).astype(np.float64, copy=False).sum(dtype=np.float32).dtype == np.float32


@pytest.mark.skipif(not has_cupy(), reason="CuPy is not installed")
def test_these_keywords_are_cupys(tmp_path):
    look = subprocess.run([sys.executable, "-c", LOOK_AT_KEYWORDS, str(KEYWORDS)], cwd=tmp_path, capture_output=True,
                          text=True)
    assert (look.returncode, look.stdout) == (0, ""), look.stderr
