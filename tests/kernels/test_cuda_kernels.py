"""Kernels for a GPU without one: they pass their tests in Numba's simulator too, and NVIDIA's compiler takes them."""

import importlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest
from machine_code import assembled, slow
from numba import cuda

from kernels.cuda import each_element, each_row, ptx

HERE = Path(__file__).parent
MODULES = sorted(path.parent.name for path in (HERE.parents[1] / "kernels").glob("*/cuda.py"))
SIMULATED = os.environ.get("REFIMPL_STANDIN_KERNELS") == "simulator"


@pytest.fixture(scope="module")
def kinds(tmp_path_factory):
    """Run all kernels' tests in the simulator; return "module:kernel" -> the kinds of arguments it was run with."""
    if SIMULATED:
        pytest.skip("this is that run")
    told = tmp_path_factory.mktemp("kinds") / "kinds.json"
    environment = os.environ | {"NUMBA_ENABLE_CUDASIM": "1", "REFIMPL_STANDIN_KERNELS": "simulator",
                                "REFIMPL_KINDS_FILE": str(told)}
    environment.pop("REFIMPL_TEST_DEVICE", None)  # of the run around it, where that is on a GPU
    run = subprocess.run([sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", str(HERE)],
                         env=environment, capture_output=True, text=True, timeout=250)
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-1000:]
    return json.loads(told.read_text())


@pytest.mark.thorough
def test_all_kernels_pass_their_tests_in_the_simulator(kinds):
    assert {name.split(".")[1] for name in kinds} == set(MODULES)
    assert all(kinds.values()), "a kernel without a test"


@each_element
def add_column_to_row(row, column, columns, out):
    """Write a number that names the element."""
    out[row * columns + column] = 1000 * row + column


def write_total(row, total, columns, x, out):
    """Write the row's sum."""
    out[row] = total


@each_row(write_total)
def sum_of_row(row, lane, lanes, columns, x, out):
    """Return the lane's part of a row's sum."""
    total = np.float64(0)
    for column in range(lane, columns, lanes):
        total += x[row * columns + column]
    return total


@pytest.mark.parametrize("rows, columns", [(0, 3), (3, 0), (1, 1), (1, 300), (70, 1), (37, 5), (9, 33)])
def test_every_element_is_met_once(gpu, rows, columns):
    out = gpu.full((rows, columns), -1.0, np.float32)
    add_column_to_row(rows, columns, columns, out)
    assert np.array_equal(out.get(), 1000.0 * np.arange(rows)[:, None] + np.arange(columns))


@pytest.mark.parametrize("lanes", [1, 2, 16, pytest.param(256, marks=pytest.mark.big)])
def test_a_row_is_folded_in_halves(gpu, lanes):
    x = np.random.default_rng(lanes).normal(size=(3, 40)) * 2.0 ** np.arange(40)
    out = gpu.empty(3)
    sum_of_row(3, lanes, 40, gpu.asarray(x), out)
    parts = np.zeros((3, lanes))
    for column in range(40):
        parts[:, column % lanes] += x[:, column]
    while parts.shape[1] > 1:
        half = parts.shape[1] // 2
        parts = parts[:, :half] + parts[:, half:]
    assert out.get().tobytes() == parts[:, 0].tobytes()


@pytest.mark.parametrize("lanes", [3, 512])
def test_lanes_that_cannot_be_folded_are_refused(gpu, lanes):
    with pytest.raises(ValueError, match="sum_of_row"):
        sum_of_row(1, lanes, 1, gpu.ones((1, 1)), gpu.empty(1))


def test_the_standin_refuses_what_a_gpu_would_misread(gpu):
    out = gpu.zeros((4, 6), np.float32)
    if not hasattr(gpu, "standin"):
        pytest.skip("CuPy checks nothing here")
    with pytest.raises(TypeError, match="device"):
        add_column_to_row(4, 6, 6, np.zeros((4, 6), np.float32))
    with pytest.raises(ValueError, match="contiguous"):
        add_column_to_row(4, 3, 3, out[:, ::2])
    if not SIMULATED:
        with pytest.raises(IndexError):
            add_column_to_row(5, 6, 6, out)


@pytest.fixture(scope="module")
def compiler():
    if SIMULATED:
        pytest.skip("the simulator compiles nothing")
    try:
        ptx.compiled_text(add_column_to_row, ("q", "f*"))
    except RuntimeError as problem:
        pytest.skip(str(problem))


def test_ptx_is_taken_by_the_assembler(compiler, tmp_path):
    assembled(ptx.compiled_text(add_column_to_row, ("q", "f*")), tmp_path)
    assembled(ptx.compiled_text(sum_of_row, ("q", "f*", "d*")), tmp_path)


def test_ptx_rounds_every_operation(compiler):
    text = ptx.compiled_text(add_column_to_row, ("q", "f*"), (9, 0))
    assert ".target sm_90" in text and ptx.entry_of(text).startswith("_Z")
    for real, suffix in (("f", "f32"), ("d", "f64")):
        text = ptx.compiled_text(multiply_and_add, (real, real + "*", real + "*"), (9, 0))
        assert f"mul.rn.{suffix}" in text and f"add.rn.{suffix}" in text and "fma" not in text
        assert not re.search(r"\b(add|sub|mul)\.f(32|64)", text)
        assert [kind for kind in re.findall(r"\.param \.(\w+)", text)] == ["u64", "u64", suffix, "u64", "u64"]


@each_element
def multiply_and_add(row, column, factor, x, out):
    """out += factor * x: what an assembler would make one operation of."""
    out[column] += factor * x[column]


@pytest.mark.thorough
def test_all_kernels_are_taken_by_nvidias_compiler(compiler, kinds, tmp_path):
    for name, all_kinds in kinds.items():
        module, kernel = name.split(":")
        singles = [one for one in all_kinds if "d" not in "".join(one)] or all_kinds  # float32 where there is both
        for one in singles[:1]:
            body = getattr(importlib.import_module(module), kernel)
            text = ptx.compiled_text(body, one)
            assert ptx.entry_of(text) and not re.search(r"\b(add|sub|mul)\.f(32|64)", text), name
            given = ["f64" if kind == "d" else "f32" if kind == "f" else "u64" for kind in one]
            assert re.findall(r"\.param \.(\w+)", text.split("{")[0]) == ["u64", "u64", *given], name
            assert not re.search(r"\b(atom|red)\.", text), f"{name}: several threads add to one number"
            assert not slow(body, one, text, assembled(text, tmp_path)), name


@each_element
def multiply_by_a_literal(row, column, x):
    """What Numba makes a float64 of."""
    x[column] = x[column] * 0.1


@each_element
def divide_places(row, column, width, x):
    """x[column // width] = 0"""
    x[column // width] = x[0]


@each_element
def use_local_memory(row, column, x):
    """Keep numbers where registers are not."""
    kept = cuda.local.array(40, numba.float32)
    for k in range(40):
        kept[k] = x[k]
    x[column] = kept[np.int64(x[column])]


@pytest.mark.parametrize("kernel, kinds, what", [
    (multiply_by_a_literal, ("f*",), "float64 among float32"),
    (divide_places, ("q", "f*"), "a division of 64 bits"), (use_local_memory, ("f*",), "local memory")])
def test_what_makes_a_kernel_slow_is_found(compiler, tmp_path, kernel, kinds, what):
    text = ptx.compiled_text(kernel, kinds)
    told = assembled(text, tmp_path)
    found = slow(kernel, kinds, text, told)
    assert found and found[0].startswith(what)
    quick = ptx.compiled_text(add_column_to_row, ("q", "f*"))
    assert not slow(add_column_to_row, ("q", "f*"), quick, assembled(quick, tmp_path))
    spilled = "16 bytes stack frame, 8 bytes spill stores, 4 bytes spill loads"
    assert slow(add_column_to_row, ("q", "f*"), quick, spilled) == ["registers are spilled: 8 bytes out, 4 in",
                                                                    "16 bytes on the stack"]


def test_ptx_is_kept_and_found_again(compiler, monkeypatch, tmp_path):
    monkeypatch.setattr(ptx, "HERE", tmp_path / "kept")
    text, path = ptx.kept(multiply_and_add, ("f", "f*", "f*"))
    monkeypatch.setattr(ptx, "compiled_text", None)
    assert ptx.kept(multiply_and_add, ("f", "f*", "f*")) == (text, path) and path.read_text() == text
    assert [one.name for one in path.parent.iterdir()] == [path.name]


def test_without_a_compiler_the_remedy_is_named(monkeypatch):
    def missing(*args, **kwargs):
        raise OSError("libNVVM cannot be found")

    if SIMULATED:
        pytest.skip("the simulator compiles nothing")
    monkeypatch.setattr(ptx.cuda, "compile_ptx", missing)
    with pytest.raises(RuntimeError, match="cuda12"):
        ptx.compiled_text(multiply_and_add, ("f", "f*", "f*"))
