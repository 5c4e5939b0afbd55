"""The fast support vector machine is the plain one, bit for bit, with any cache; optimal, and what it refuses."""

import numpy as np
import pytest
from mpi4py import MPI

from kernels.svm.definition import KernelFunction, kernel_row
from models.svm.blocks import BlockSolver
from models.svm.classes import train_classifier
from models.svm.files import load_classifier, read_libsvm, save_classifier
from models.svm.solver import Solver, SvmOptions
from models.svm.traffic import OneRank, SvmTraffic
from refimpl.plain.messages import Messages
from refimpl.plain.svm import SupportVectors, two_rings

SAMPLES = 203
ROWS, LABELS = two_rings(SAMPLES)
GAUSSIAN = KernelFunction("gaussian", 0.1)


def trained(kernel=GAUSSIAN, solver=None, **options):
    solver = solver or (BlockSolver if options.get("block", 1) > 1 else Solver)
    machine = solver(ROWS, LABELS, kernel, SvmOptions(**{"c": 10.0, **options}))
    return machine, machine.train()


def gap(machine):
    """F_low - F_up of all samples, from the whole kernel matrix."""
    alpha, c = machine.alpha, machine.options.c
    kernels = np.array([kernel_row(machine.kernel, row, ROWS) for row in ROWS])
    error = (alpha * LABELS) @ kernels - LABELS
    grow, shrink = np.where(LABELS > 0, alpha < c, alpha > 0), np.where(LABELS > 0, alpha > 0, alpha < c)
    return error[shrink].max() - error[grow].min()


@pytest.mark.parametrize("cache", [1, 5000, 1 << 20])
@pytest.mark.parametrize("period", [10**9, 20, 1])
def test_it_is_the_plain_one(period, cache):
    plain = SupportVectors(Messages(MPI.COMM_SELF), ROWS, LABELS, period=period)
    bias = plain.train()
    fast, found = trained(selection="first", period=period, cache=cache)
    assert (found, fast.iterations) == (bias, plain.iterations) and fast.alpha.tobytes() == abs(plain.beta).tobytes()
    assert cache > 1 or fast.cache.evaluations <= plain.evaluations  # two rows are always kept


@pytest.mark.parametrize("kernel", [GAUSSIAN, KernelFunction("linear"), KernelFunction("polynomial", 0.2, 3, 1.0)],
                         ids=lambda kernel: kernel.kind)
@pytest.mark.parametrize("options", [{"selection": "second", "elimination": how, "period": 7} for how in
                                     ("none", "single", "multi")] + [{"c": 0.5, "cache": 1, "period": 3},
                          {"block": 4, "period": 7}, {"block": 60, "cache": 1, "selection": "first"}], ids=str)
def test_the_weights_are_optimal(kernel, options):
    machine, _ = trained(kernel, **{"c": 1.0, "tolerance": 1e-2, **options})
    scale = np.abs(machine.samples.error).max() + np.abs(machine.samples.diagonal).max()
    assert gap(machine) <= 2e-2 + 1e-11 * scale * SAMPLES  # both add F in another order
    assert (machine.alpha >= 0).all() and (machine.alpha <= machine.options.c).all()


def eliminate_all_of_weight_0(self):
    samples = self.samples
    samples.deactivate(np.flatnonzero(self.alpha[samples.ids[:samples.active]] == 0), self.cache)


class Wrong(Solver):
    """It eliminates every sample of weight 0 after five iterations."""

    def _improve(self, *pair):
        super()._improve(*pair)
        if self.iterations == 5:
            eliminate_all_of_weight_0(self)


class WrongBlocks(BlockSolver):
    """It does so after the first round."""

    def _change(self, *block):
        super()._change(*block)
        if not self.iterations:
            eliminate_all_of_weight_0(self)


@pytest.mark.parametrize("solver, block", [(Wrong, 1), (WrongBlocks, 4)])
def test_wrong_eliminations_are_put_right_by_reconstruction_alone(solver, block):
    assert gap(trained(solver=solver, block=block)[0]) <= 2e-3 + 1e-9
    assert gap(trained(solver=solver, block=block, elimination="approximate")[0]) > 0.1


def test_rounds_and_bytes_are_counted():
    traffic = SvmTraffic(OneRank(), None, 5)
    traffic.gather(np.ones(2))
    traffic.gather_terms([3], [1.0])
    assert traffic.rounds == 2 and traffic.bytes_by_rank(2).tolist() == [8 * (2 + 3)] * 2


def test_blocks_need_a_fifth_of_the_rounds():
    pairs, blocks = (trained(block=block, period=20)[0] for block in (1, 8))
    assert blocks.traffic.rounds < pairs.traffic.rounds / 5
    assert blocks.objective == pytest.approx(pairs.objective, rel=1e-6)


@pytest.mark.parametrize("cache", [1, 1 << 20])
def test_a_block_knows_the_kernel_of_every_two_members(cache):
    blocks, _ = trained(block=4, cache=cache, period=7)
    members = np.flatnonzero(blocks.where >= 0)
    expected = np.array([kernel_row(GAUSSIAN, ROWS[member], ROWS[members]) for member in members])
    assert len(members) == 20 and blocks.between.tobytes() == expected.tobytes()


@pytest.mark.parametrize("block", [1, 4])
def test_the_work_that_ranks_divide_is_a_part_of_the_time(block):
    machine, _ = trained(block=block)
    assert 0 < machine.samples.divided.seconds < machine.whole.seconds


def test_second_order_and_a_cache_save_evaluations():
    counts = [trained(selection=selection, cache=cache, period=20)[0].cache.evaluations
              for selection, cache in (("first", 1), ("second", 1), ("second", 1 << 20))]
    assert counts[0] > 1.5 * counts[1] and counts[2] <= SAMPLES**2


def test_three_classes_are_learnt_kept_and_read_again(tmp_path):
    rng = np.random.default_rng(3)
    rows = np.concatenate([rng.standard_normal((40, 2)) + shift for shift in (0, 3, 6)])
    labels = np.repeat([7, 1, 4], 40)
    classifier, solvers = train_classifier(rows, labels, GAUSSIAN, SvmOptions(c=10.0))
    assert len(solvers) == 3 and (classifier.predict(rows) == labels).mean() > 0.9
    save_classifier(tmp_path / "machine", classifier)
    again = load_classifier(tmp_path / "machine")
    assert again.sha256() == classifier.sha256() and again.kernel == GAUSSIAN
    assert again.predict(rows).tobytes() == classifier.predict(rows).tobytes()
    with pytest.raises(ValueError, match="the rows have 3 features; the machine was trained on 2"):
        again.predict(np.zeros((1, 3)))


@pytest.mark.parametrize("rows, labels, kernel, options, says", [
    (ROWS[:3], LABELS[:2], GAUSSIAN, {}, "3 samples and 2 labels"),
    (ROWS[:3] * np.array([1, np.nan]), LABELS[:3], GAUSSIAN, {}, "feature 1 of sample 0 is nan"),
    (ROWS[:3], [2, 2, 2], GAUSSIAN, {}, "all 3 samples are of one class"),
    (ROWS, LABELS, GAUSSIAN, {"c": 0.0}, "C is 0.0: give a number above 0"),
    (ROWS, LABELS, KernelFunction("gaussian", -1.0), {}, "gamma is -1.0"),
    (ROWS, LABELS, GAUSSIAN, {"cache": 0}, "the cache is 0: give a whole number, 1 or more"),
    (ROWS, LABELS, KernelFunction("polynomial", 1.0, 2.5), {}, "the degree is 2.5: give a whole number"),
    (ROWS, LABELS, KernelFunction("polynomial", 1.0, 2, np.nan), {}, "the constant is nan: give a finite number"),
    (ROWS, LABELS, GAUSSIAN, {"c": "much"}, "C is much: give a number above 0"),
    (ROWS, LABELS, GAUSSIAN, {"period": 0}, "the period is 0"),
    (ROWS, LABELS, GAUSSIAN, {"block": 0}, "the block is 0"),
    (ROWS, LABELS, KernelFunction("sigmoid"), {}, "'sigmoid' is none of gaussian, linear, polynomial"),
    (ROWS * np.where(np.arange(SAMPLES) == 7, 1e200, 1.0)[:, None], LABELS, KernelFunction("linear"), {},
     "K of sample 7 with itself is too large"),
    (ROWS * 1e90, LABELS, KernelFunction("polynomial"), {}, "K of sample 0 with itself is too large"),
    (ROWS, LABELS, GAUSSIAN, {"selection": "third"}, "'third' is none of first, second"),
], ids=lambda value: value if isinstance(value, str) else "")
def test_what_cannot_be_trained_is_refused(rows, labels, kernel, options, says):
    with pytest.raises(ValueError, match=says):
        train_classifier(np.asarray(rows), np.asarray(labels), kernel, SvmOptions(**options))


@pytest.mark.parametrize("block", [1, 4])
def test_a_gap_that_does_not_close_is_told(block):
    machine = (BlockSolver if block > 1 else Solver)(ROWS, LABELS, GAUSSIAN, SvmOptions(c=10.0, block=block))
    machine.limit = 5
    with pytest.raises(ValueError, match="the gap is still .* after .* iterations: scale the features"):
        machine.train()


def test_libsvms_format(tmp_path):
    path = tmp_path / "samples"
    path.write_text("+1 1:0.5 3:-2e1  # a comment\n\n-1\n2 2:7\n")
    rows, labels = read_libsvm(path)
    assert rows.toarray().tolist() == [[0.5, 0, -20], [0, 0, 0], [0, 7, 0]] and labels.tolist() == [1, -1, 2]
    assert read_libsvm(path, 5)[0].shape == (3, 5)


@pytest.mark.parametrize("text, says", [
    ("1 1:2\n0.5 1:2\n", "line 2 of .*the label 0.5 is no whole number"),
    ("1 2:1 1:1\n", "line 1 of .*features must rise from 1 on"), ("1 0:1\n", "features must rise"),
    ("1 1=2\n", "line 1 of .* is no sample"), ("1 1:2\n2 1:nan\n", "line 2 of .*give finite numbers"),
    ("1 2:inf\n", "give finite numbers"), ("\n", "has no sample"), ("1 4:1\n", "has feature 4; the machine was"),
])
def test_what_is_no_sample_is_named(tmp_path, text, says):
    (tmp_path / "samples").write_text(text)
    with pytest.raises(ValueError, match=says):
        read_libsvm(tmp_path / "samples", 3)


def test_a_file_that_cannot_be_read_or_written_is_named(tmp_path):
    (tmp_path / "picture").write_bytes(b"1 1:2\n\xff")
    with pytest.raises(ValueError, match="picture: byte 6 is not UTF-8 .* give a file with lines LABEL FEATURE:VALUE"):
        read_libsvm(tmp_path / "picture")
    with pytest.raises(ValueError, match="nothing: no such file; .* or a set that svm train --help names"):
        read_libsvm(tmp_path / "nothing")
    with pytest.raises(OSError, match="machine cannot be written"):
        save_classifier(tmp_path / "none" / "machine", train_classifier(ROWS, LABELS, GAUSSIAN, SvmOptions())[0])


def test_what_is_no_machine_is_named(tmp_path):
    (tmp_path / "machine").write_bytes(b"no machine")
    with pytest.raises(ValueError, match="is no trained machine"):
        load_classifier(tmp_path / "machine")
