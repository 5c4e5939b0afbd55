"""Support vector machines on ranks: the bits of one, bytes by formula; scikit-learn's own checks pass."""

import json

import numpy as np
import pytest
from mpi4py import MPI
from scipy.sparse import csr_array

from kernels.svm.definition import KernelFunction
from models.svm.blocks import BlockSolver
from models.svm.solver import Solver, SvmOptions
from models.svm.traffic import OneRank
from refimpl.cli import main
from refimpl.plain.svm import two_rings
from refimpl.transport import Communicator
from refimpl.svm.ranks import SvmRanks

ROWS, LABELS = two_rings(203)


@pytest.mark.mpi
@pytest.mark.ranks(3, 4)
@pytest.mark.parametrize("options", [{"selection": "first", "cache": 1}, {"selection": "second"},
                                     {"block": 4}, {"block": 8, "cache": 1, "selection": "first"}], ids=str)
@pytest.mark.parametrize("form, narrow", [(np.asarray, 64), (np.asarray, 1), (csr_array, 64)],
                         ids=["dense", "many features", "CSR"])
@pytest.mark.thorough("dense", "CSR-{'selection': 'first'", "features-{'block': 8")
def test_any_number_of_ranks_gives_the_bits_of_one(comm, options, form, narrow, monkeypatch):
    monkeypatch.setattr("models.svm.blocks.NARROW", narrow)
    options = SvmOptions(c=10.0, period=20, **options)
    solver = BlockSolver if options.block > 1 else Solver
    alone = solver(ROWS, LABELS, KernelFunction("gaussian", 0.1), options)
    bias, ranks = alone.train(), SvmRanks(Communicator.of(comm))
    several = solver(form(ROWS), LABELS, KernelFunction("gaussian", 0.1), options, ranks)
    assert several.train() == bias and several.alpha.tobytes() == alone.alpha.tobytes()
    assert several.objective == alone.objective and several.iterations == alone.iterations
    # a vector of CSR is two numbers for each value, so fewer rows may fit into the cache
    assert form is csr_array or comm.allreduce(several.evaluations - several.repeated) == (
        alone.evaluations - alone.repeated)
    assert options.block == 1 or several.between.tobytes() == alone.between.tobytes()
    assert ranks.comm.ledger.total() == several.traffic.bytes_by_rank(comm.size)[comm.rank]
    planned = solver(form(ROWS), LABELS, KernelFunction("gaussian", 0.1), options, OneRank(comm.size))
    assert planned.train() == bias and several.traffic.rounds == planned.traffic.rounds
    assert ranks.comm.ledger.total() == planned.traffic.bytes_by_rank(comm.size)[comm.rank]


@pytest.mark.mpi
@pytest.mark.ranks(3)
@pytest.mark.parametrize("options", [[], ["--block", "1", "--selection", "first"]], ids=["blocks", "pairs"])
def test_plan_foretells_the_bytes_of_train(comm, tmp_path, capsys, options):
    path = comm.bcast(str(tmp_path / "classes"))
    if comm.rank == 0:  # three classes, and rows of which a cache of 1 MB holds a part
        wide = np.random.default_rng(2).standard_normal((600, 40)) + np.arange(600)[:, None] % 3
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(f"{n % 3} " + " ".join(f"{k}:{value:.4f}" for k, value in enumerate(row, 1)) + "\n"
                            for n, row in enumerate(wide))
    comm.Barrier()
    given = [path, "--c", "10", "--gamma", "0.02", "--cache", "1", "--period", "50", *options, "--json"]
    assert main(["svm", "train", *given]) == 0
    told = json.loads(comm.bcast(capsys.readouterr().out))
    if comm.rank == 0:
        assert main(["svm", "plan", *given, "--ranks", "1", "3"]) == 0
        one, three = json.loads(capsys.readouterr().out)
        assert (three["bytes"], three["rounds"]) == (told["bytes"], told["rounds"]) and one["bytes"] == 0
        assert three["objectives"] == told["objectives"] and three["most_bytes"] >= three["bytes"] / 3


@pytest.mark.mpi
@pytest.mark.ranks(3)
def test_the_command_prints_one_hash(comm, tmp_path, capsys):
    path = comm.bcast(str(tmp_path / "rings"))
    if comm.rank == 0:
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(f"{label} 1:{a!r} 2:{b!r}\n" for label, (a, b) in zip(LABELS.tolist(), ROWS.tolist()))
    comm.Barrier()
    assert main(["svm", "train", path, "--c", "10", "--output", f"{path}.machine", "--json"]) == 0
    told = json.loads(comm.bcast(capsys.readouterr().out))
    assert (told["samples"], told["ranks"]) == (203, 3) and told["bytes"] > 0
    comm.Barrier()
    if comm.rank == 0:
        assert main(["svm", "predict", f"{path}.machine", path, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["right"] > 190


def test_scikit_learns_own_checks_pass():
    checks = pytest.importorskip("sklearn.utils.estimator_checks")
    from refimpl.svm import SVC

    checks.check_estimator(SVC(comm=MPI.COMM_SELF))


def test_it_decides_as_scikit_learns():
    svm = pytest.importorskip("sklearn.svm")
    from refimpl.svm import SVC

    options = {"C": 10.0, "gamma": 0.1, "tol": 1e-6}
    ours, theirs = SVC(**options).fit(ROWS, LABELS), svm.SVC(**options).fit(ROWS, LABELS)
    found, expected = ours.decision_function(ROWS), theirs.decision_function(ROWS)
    # both are within the tolerance of the optimum, whose F then is within it, too; 100 for the curvature of K
    assert np.abs(found - expected).max() < 1e-4 and len(ours.support_vectors_) == len(theirs.support_vectors_)
