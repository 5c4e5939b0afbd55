"""Bench on a GPU: training steps and the row merge beside PyTorch eager on the same GPU, in one run.

float32 on both sides, TF32 off. Each side gets its batches from the host, as in a training. A step ends when its loss
is on the host; what is left of it counts at the end of a round (``race``, settle).

gpu-lm-step, gpu-cnn-step: a step through the trainer, on one rank.
gpu-aggregate-rows:        the row gradients of a window summed by row, all on the GPU.
And the allreduce between two ranks (``allreduce_gpu``).
"""

import itertools
from dataclasses import dataclass

import numpy as np

from kernels import aggregate_rows
from kernels.random import key_of, uniform
from models.cnn import ConvNet
from models.data import Examples
from models.lm import LanguageModel
from refimpl.experiments.bench.allreduce import gpu as allreduce_gpu
from refimpl.experiments.bench.gpu import bounds, budget
from refimpl.experiments.bench.peers import import_torch
from refimpl.experiments.bench.step import token_streams
from refimpl.experiments.bench.timing import Row, race, report
from refimpl.training.device import find_gpu
from refimpl.training.options import Options
from refimpl.training.trainer import Trainer
from refimpl.transport import Communicator

STEPS = 8  # of different batches; then the same come again


@dataclass(frozen=True)
class Sizes:
    """What is measured. words: a batch of the language model is (time, streams).  rows: of the row merge, and width."""

    lm: dict
    words: tuple[int, int]
    images: tuple[int, int, int, int]
    network: dict
    rows: tuple[int, int]
    vocabulary: int
    copied: int  # bytes, for the GPU's copy bandwidth


FULL = Sizes(dict(vocabulary=100_000, embedding=512, hidden=2048, projection=512, layers=1, samples=8192, keep=0.9),
             (20, 128), (128, 32, 32, 3), dict(width=16, blocks=(1, 1, 1)), (2560 * 20, 512), 100_000, 1 << 28)


def run(seconds: float = 10.0, rounds: int = 7, sizes: Sizes = FULL, between_ranks: bool = True,
        trainings=bounds.TRAININGS) -> dict:
    """Measure all works, ``seconds`` each; return the report: rows, ratios, device and versions. Local.

    trainings: those whose results are compared with the CPU's.
    Raises ValueError, saying what is missing, where there is no GPU.
    """
    device = find_gpu(0)
    torch, length = _torch(), {"seconds": seconds, "rounds": rounds, "settle": _settle(device, import_torch())}
    rows = [*race_lm(sizes, torch, length), *race_cnn(sizes, torch, length)]
    merge = race_rows(device.xp, sizes, torch, length)
    copy = copy_bandwidth(device.xp, sizes.copied, length)
    result = report(rows + merge)
    result |= {"device": device.to_json(), "copy_bandwidth": copy, "merge_bandwidth": _moved(sizes) / merge[0].seconds,
               "lm_budget": lm_budget(sizes)}
    result["bounds"] = bounds.run(trainings)
    if between_ranks:
        try:
            result["allreduce"] = allreduce_gpu.run(min(2.0, seconds), rounds)
        except ValueError as problem:  # NCCL may not be there: the rest is worth a report
            result["allreduce"] = {"rows": [], "error": str(problem)}
    return result


def _torch():
    """Return torch where it has a GPU, else None; TF32 is off."""
    torch = import_torch()
    if torch is None or not torch.cuda.is_available():
        return None
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    return torch


def _settle(device, torch):
    def settle():
        device.synchronize()
        if torch is not None and torch.cuda.is_available():
            torch.cuda.synchronize()
    return settle


def race_lm(sizes: Sizes, torch, length, on: str = "cuda") -> list[Row]:
    """Race a step of the language model against PyTorch's. torch: None to leave it out.  on: torch's device."""
    model, (time, streams) = LanguageModel(**sizes.lm), sizes.words
    data = token_streams(model.vocabulary, 1, streams, time, STEPS)
    options = Options(architecture="hybrid", optimizer="adagrad", learning_rate=0.2, clip_norm=10.0, device="cuda")
    ours, peers = {"refimpl": Trainer(model, data, options, Communicator.alone()).train_step}, {}
    if torch is not None:
        from refimpl.experiments.bench.peers.torch_lm import LogUniformSampler, TorchLanguageModel, TorchTrainer

        peer = TorchLanguageModel(model, {v.name: v.initial_value(0) for v in model.variables}).to(on)
        sampler = LogUniformSampler(model.samples, model.vocabulary)
        peers = {"torch eager": TorchTrainer(peer, 0.2, 10.0).stepper(data, sampler)}
    size = (f"{streams} streams x {time} words, embedding {sizes.lm['embedding']}, LSTM {model.hidden} projected to "
            f"{model.width}, {model.samples} candidates of {model.vocabulary}")
    return race("gpu-lm-step", size, ours, peers, **length)


def lm_budget(sizes: Sizes) -> dict:
    """Return what a step of the language model must take at least: seconds of the host and of the GPU, and launches."""
    lm = sizes.lm
    table = budget.lm_step(*sizes.words, lm["embedding"], lm["hidden"], lm["projection"], lm["samples"])
    host, there = budget.bounds(table)
    return {"host": host, "device": there, "launches": sum(work.launches for work in table)}


def race_cnn(sizes: Sizes, torch, length, on: str = "cuda") -> list[Row]:
    """Race a step of the residual network against PyTorch's; no augmentation on either side."""
    count, *shape = sizes.images
    model, rng = ConvNet(shape, 10, **sizes.network, augment=False), np.random.default_rng(0)
    images = rng.integers(0, 256, (count * STEPS, *shape)).astype(np.uint8)
    data = Examples(images, rng.integers(0, 10, count * STEPS), 1, count)
    options = Options(architecture="hybrid", optimizer="momentum", learning_rate=0.1, device="cuda")
    ours, peers = {"refimpl": Trainer(model, data, options, Communicator.alone()).train_step}, {}
    if torch is not None:
        from refimpl.experiments.bench.peers.torch_cnn import TorchConvNet, TorchImageTrainer

        trainer = TorchImageTrainer(TorchConvNet(model).to(on), 0.1)
        batches = itertools.cycle([data.microbatch(step, 0) for step in range(STEPS)])

        def step():
            batch = next(batches)
            trainer.step(batch.inputs, batch.targets)

        peers = {"torch eager": step}
    size = f"{count} images {shape[0]} x {shape[1]}, width {sizes.network['width']}, blocks {sizes.network['blocks']}"
    return race("gpu-cnn-step", size, ours, peers, **length)


def race_rows(xp, sizes: Sizes, torch, length, on: str = "cuda") -> list[Row]:
    """Race the sum of rows that share an id against torch's coalesce: ids by Zipf's law, on the GPU as the rows are."""
    (count, width), ids = sizes.rows, _zipf_ids(sizes)
    values = (uniform(key_of("bench", "values"), count * width) - 0.5).reshape(count, width).astype(np.float32)
    there = xp.asarray(ids), xp.asarray(values)
    ours, peers = {"refimpl": lambda: aggregate_rows(*there)}, {}
    if torch is not None:
        sparse = torch.from_numpy(ids)[None].to(on), torch.from_numpy(values).to(on)
        shape = (sizes.vocabulary, width)
        peers = {"torch coalesce": lambda: torch.sparse_coo_tensor(*sparse, shape).coalesce()}
    return race("gpu-aggregate-rows", f"{count} x {width} of {sizes.vocabulary}, Zipf", ours, peers, **length)


def _zipf_ids(sizes: Sizes) -> np.ndarray:
    return np.exp(uniform(key_of("bench", "ids"), sizes.rows[0]) * np.log(sizes.vocabulary + 1)).astype(np.int64) - 1


def _moved(sizes: Sizes) -> int:
    """Return the bytes that the row merge must read and write: every row once, every sum once."""
    count, width = sizes.rows
    return (count + len(np.unique(_zipf_ids(sizes)))) * width * 4


def copy_bandwidth(xp, nbytes: int, length) -> float:
    """Return how many bytes a second the GPU reads and writes when it copies its own memory."""
    source, target = xp.ones(nbytes // 4, xp.float32), xp.empty(nbytes // 4, xp.float32)

    def copy():
        target[...] = source

    row, = race("copy", "", {"copy": copy}, {}, **{**length, "seconds": min(1.0, length["seconds"])})
    return 2 * nbytes / row.seconds
