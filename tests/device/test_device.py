"""--device: what is missing is said, with the remedy, on all ranks; and where memory ends, for what."""

import gc
import json
import re
import sys

import numpy as np
import pytest
from mpi4py import MPI

from kernels.arrays import aligned, as_array
from models.lm import PRESETS, LanguageModel
from refimpl.cli import main
from refimpl.training.device import find_gpu, memory_for, open_device
from refimpl.training.options import Options
from refimpl.training.trainer import Trainer
from refimpl.transport import CollectiveError, Communicator

TINY = ("--preset tiny --data synthetic:60 --microbatches 2 --microbatch-size 2 --window 3 --heldout 40 --steps 2"
        ).split()


@pytest.fixture
def communicator():
    return Communicator.of(MPI.COMM_SELF)


def test_without_cupy_the_extras_are_named(monkeypatch, communicator):
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(CollectiveError, match=r"\[cuda12\].*\[cuda13\].*--device cpu"):
        open_device("cuda", communicator)


def test_a_gpu_that_cannot_be_used_is_named(cupy, communicator, monkeypatch):
    class Refused:
        def __init__(self, index):
            pass

        def use(self):
            raise cupy.cuda.runtime.CUDARuntimeError(46)

    monkeypatch.setattr(cupy.cuda, "Device", Refused)  # by its own name: CuPy calls CUDA from compiled code
    with pytest.raises(ValueError, match="GPU 0 of this machine cannot be used .*cudaError.*nvidia-smi"):
        find_gpu(0)
    found = open_device("auto", communicator)
    assert found.kind == "cpu" and found.to_json() == {"device": "cpu"}
    assert "GPU 0 of this machine" in found.told("auto")


@pytest.mark.parametrize("missing, said", [
    ("CuPy", "needs CuPy, which is not installed"), ("driver", "finds no GPU .*install NVIDIA's driver.*nvidia-smi"),
    ("GPU", "this machine shows no GPU.*CUDA_VISIBLE_DEVICES")])
def test_auto_says_why_it_found_no_gpu(cupy, communicator, monkeypatch, missing, said):
    def no_driver():
        raise RuntimeError("cudaErrorInsufficientDriver")

    if missing == "CuPy":
        monkeypatch.setitem(sys.modules, "cupy", None)  # as if it were not installed
    else:
        count = no_driver if missing == "driver" else lambda: 0
        monkeypatch.setattr(cupy.cuda.runtime, "getDeviceCount", count)
        with pytest.raises(ValueError, match=said):
            find_gpu(0)
    found = open_device("auto", communicator)
    assert found.kind == "cpu" and found.xp is np and found.told("cpu") is None
    assert re.search(f"device: cpu, as not every rank finds a GPU: .*{said}", found.told("auto"))


@pytest.mark.parametrize("name, why", [
    ("CUPY_CUDA_PER_THREAD_DEFAULT_STREAM", "read what the one that computes has not written"), ("CUPY_TF32", "digits"),
    ("NVIDIA_TF32_OVERRIDE", "fewer digits"), ("CUPY_ENABLE_UMP", "the host may read what the GPU has not written"),
    ("CUBLAS_EMULATE_SINGLE_PRECISION", "float32"), ("CUBLAS_EMULATE_DOUBLE_PRECISION", "products of float64")])
def test_a_switch_that_changes_what_is_computed_is_refused(cupy, communicator, monkeypatch, name, why):
    for off in ("0", ""):
        monkeypatch.setenv(name, off)
        assert find_gpu(0).index == 0
    monkeypatch.setenv(name, "1")
    with pytest.raises(CollectiveError, match=f"--device cuda: {name} is set, .*{why}.*unset it, or say --device cpu"):
        open_device("cuda", communicator)


def test_a_setting_that_chooses_among_orders_is_recorded(cupy, monkeypatch):
    monkeypatch.delenv("CUPY_ACCELERATORS", raising=False)
    assert set(find_gpu(0).facts["settings"]) == {"CUBLAS_WORKSPACE_CONFIG"}
    monkeypatch.setenv("CUPY_ACCELERATORS", "cub,cutensor")
    assert find_gpu(0).facts["settings"]["CUPY_ACCELERATORS"] == "cub,cutensor"


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_halves_are_refused(cupy, communicator, device):
    model = LanguageModel(**PRESETS["tiny"], dtype="float16")
    with pytest.raises(CollectiveError, match="variable 'embedding' is float16: trainings are of float32 or float64"):
        Trainer.open(model, None, Options(device=device), communicator)


def test_negative_zero_comes_to_a_device_as_it_is(cupy):
    for host in (np.array(-0.0), np.full(2, -0.0), np.float32(-0.0)):
        there = as_array(cupy, host)
        assert there.shape == np.shape(host) and np.signbit(there.get()).all()
    assert as_array(np, 1.5).shape == () and as_array(cupy, there) is there


def test_a_machines_ranks_take_its_gpus_in_turn(cupy, monkeypatch):
    class Free:
        compute_capability = "90"

        def __init__(self, index):
            pass

        def use(self):
            pass

    monkeypatch.setattr(cupy.cuda.runtime, "getDeviceCount", lambda: 3)
    monkeypatch.setattr(cupy.cuda, "Device", Free)
    monkeypatch.setattr(cupy.cuda.runtime, "getDeviceProperties", lambda index: {"name": b"a GPU"})
    assert [find_gpu(place).index for place in range(5)] == [0, 1, 2, 0, 1]


def test_a_device_says_what_its_bits_depend_on(cupy, communicator):
    device = open_device("cuda", communicator)
    assert device.xp is cupy and device.index == 0
    said = json.loads(json.dumps(device.to_json()))
    assert set(said) == {"device", "gpu", "compute_capability", "cupy", "cuda", "settings"}
    assert str(device) == device.told("auto").removeprefix("device: ")


def test_products_find_their_operands_where_any_array_could_lie(cupy):
    """An arena's third array may lie anywhere: cuBLAS could take another algorithm for it under another strategy."""
    arena, host = cupy.arange(200, dtype=np.float32), np.arange(200, dtype=np.float32)
    for first, is_copied in ((0, False), (1, True), (64, False), (100, True)):
        view = arena[first:first + 9].reshape(3, 3)
        found = aligned(view)
        assert (found is not view) == is_copied and found.get().tolist() == view.get().tolist()
    assert aligned(host[1:]).base is host


def test_an_unknown_device_is_refused():
    with pytest.raises(ValueError, match="no device 'tpu'; there are cpu, cuda, auto"):
        Options(device="tpu")


def test_what_memory_was_wanted_for_is_said():
    with pytest.raises(ValueError, match="out of memory for the moon: 8 bytes. Take less"):
        with memory_for("the moon", "Take less"):
            raise MemoryError("8 bytes.")


@pytest.mark.parametrize("limit, what", [(1_000, "variable 'embedding' (1.875 KiB, the largest of 3 "),
                                         (6_000, "variable 'lstm0/kernel' (2.625 KiB, the largest of 3 "),
                                         (10_000, "adagrad's state of variable 'softmax_weight' (1.406 KiB)"),
                                         (17_000, "the exchange and update of a step"), (22_000, "microbatch 0: ")])
@pytest.mark.thorough("10000")
def test_a_gpu_that_is_too_small_names_the_variable_and_what_to_reduce(cupy, standin, capsys, limit, what):
    """Not on a GPU: a limit of CuPy's pool leaves out what it holds already."""
    pool = cupy.get_default_memory_pool()
    gc.collect()  # what trainings before this one held
    pool.set_limit(pool.used_bytes() + limit)
    try:
        assert main(["train", "lm", "--device", "cuda", "--no-output", *TINY]) == 1
    finally:
        pool.set_limit(0)
    said = capsys.readouterr().err
    assert f"out of memory for {what}" in said and "limit set to" in said and "Reduce " in said


def test_a_run_on_a_device_says_where_it_was(cupy, tmp_path, capsys):
    assert main(["train", "lm", "--device", "cuda", "--output", str(tmp_path / "run"), *TINY]) == 0
    assert "device: cuda (" in capsys.readouterr().out
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["device"]["device"] == config["options"]["device"] == "cuda"
    assert main(["train", "lm", "--device", "cpu", "--resume", str(tmp_path / "run"), "--steps", "3"]) == 0
    assert json.loads((tmp_path / "run" / "config.json").read_text())["device"] == {"device": "cpu"}
