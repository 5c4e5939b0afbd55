"""Named sets of samples, and the objective of a training on them, which equals libsvm's."""

from pathlib import Path

import numpy as np
import pytest

from kernels.svm.definition import KernelFunction
from models.data import DataError
from models.data.images.fashion_mnist import DIRECTORY
from models.svm.classes import train_classifier
from models.svm.named import R_PACKAGES, SETS, load_samples
from models.svm.solver import SvmOptions
from refimpl.cli import main


def test_a_set_is_read_whole_or_in_part():
    pytest.importorskip("sklearn")
    rows, labels = load_samples("breast_cancer")
    assert rows.shape == (569, 30) and np.bincount(labels).tolist() == [212, 357]
    np.testing.assert_allclose([rows.mean(axis=0), rows.std(axis=0)], [[0.0] * 30, [1.0] * 30], atol=1e-12)
    few, ones = load_samples("breast_cancer", [1], 100)
    assert few.tobytes() == rows[labels == 1][:100].tobytes() and set(ones) == {1}
    with pytest.raises(ValueError, match="breast_cancer has no sample of the classes 2, 3"):
        load_samples("breast_cancer", [2, 3])
    with pytest.raises(ValueError, match="breast_cancer has 30 features; the machine was trained on 16"):
        load_samples("breast_cancer", width=16)


@pytest.mark.parametrize("name, package", [("letter", "r-cran-mlbench"), ("letter-26", "r-cran-mlbench"),
                                           ("shuttle", "r-cran-mlbench"), ("spam", "r-cran-kernlab"),
                                           ("fashion-mnist", "dataset-fashion-mnist"),
                                           ("heart_scale", "liblinear-tools")])
def test_a_set_that_is_not_there_names_its_package(tmp_path, name, package):
    with pytest.raises(DataError, match=f"no such (file|directory); install Debian's package {package}, or give"):
        load_samples(f"{name}:{tmp_path}/none")


@pytest.mark.skipif(not Path(R_PACKAGES, "mlbench").exists(), reason="needs Debian's package r-cran-mlbench")
def test_letters_in_halves():
    rows, labels = load_samples("letter")
    letters = load_samples("letter-26")[1]
    assert rows.shape == (20_000, 16) and (labels == (letters >= 13)).all() and np.bincount(letters)[0] == 789


@pytest.mark.skipif(not Path(DIRECTORY).exists(), reason="needs Debian's package dataset-fashion-mnist")
def test_fashion_is_scaled():
    rows, labels = load_samples("fashion-mnist", [2, 6], 4000)
    assert rows.shape == (4000, 784) and rows.min() == 0 and rows.max() == 1 and set(labels) == {2, 6}


def objective_of_libsvm(rows, labels, c, gamma):
    """Return the dual objective that scikit-learn's machine reaches."""
    svm = pytest.importorskip("sklearn.svm")
    theirs = svm.SVC(C=c, gamma=gamma, tol=1e-5).fit(rows, labels)
    products, weights = rows[theirs.support_], theirs.dual_coef_[0]
    distances = ((products[:, None] - products[None]) ** 2).sum(axis=2)
    return np.abs(weights).sum() - 0.5 * weights @ np.exp(-gamma * distances) @ weights


@pytest.mark.parametrize("elimination", ["none", "multi"])
def test_the_objective_is_libsvms(elimination):
    pytest.importorskip("sklearn")
    rows, labels = load_samples("breast_cancer")
    _, (solver,) = train_classifier(rows, labels, KernelFunction("gaussian", 0.1),
                                    SvmOptions(10.0, 1e-5, elimination=elimination, period=30))
    expected = objective_of_libsvm(rows, labels, 10.0, 0.1)
    assert solver.objective == pytest.approx(expected, rel=1e-6)


def test_the_command_prints_the_objective_or_that_it_is_not_known(capsys):
    pytest.importorskip("sklearn")
    assert main(["svm", "train", "breast_cancer", "--first", "200"]) == 0
    assert "dual objective: " in (told := capsys.readouterr().out) and "not known" not in told
    assert main(["svm", "train", "breast_cancer", "--elimination", "approximate"]) == 0
    assert "dual objective: not known, because nothing was reconstructed" in capsys.readouterr().out


def test_every_set_says_what_it_holds():
    assert all("Return" in read.__doc__ for read in SETS.values())


@pytest.mark.parametrize("options, says", [
    (["--c", "0"], "--c: '0'"), (["--gamma", "-1"], "--gamma: '-1'"), (["--cache", "0"], "--cache: '0'"),
    (["--block", "0"], "--block: '0'"), (["--first", "0"], "--first: '0'"), (["--c", "nan"], "--c: 'nan'"),
])
def test_what_the_command_cannot_use_is_refused(capsys, options, says):
    with pytest.raises(SystemExit) as end:
        main(["svm", "train", "breast_cancer", *options])
    assert end.value.code == 2 and says in capsys.readouterr().err


def test_a_file_that_cannot_be_trained_on_is_refused(tmp_path, capsys):
    (tmp_path / "samples").write_text("1 1:2\n1 1:3\n")
    assert main(["svm", "train", str(tmp_path / "samples")]) == 1
    assert "all 2 samples are of one class" in capsys.readouterr().err


def test_a_place_where_no_machine_can_be_written_is_refused_before_the_training(tmp_path, capsys):
    (tmp_path / "samples").write_text("1 1:2\n2 1:3\n")
    assert main(["svm", "train", str(tmp_path / "samples"), "--output", str(tmp_path / "none" / "machine")]) == 1
    assert "none/machine: there is no directory" in capsys.readouterr().err


def test_a_file_with_more_features_than_the_machine_is_refused(tmp_path, capsys):
    for name, feature in (("train", 1), ("wide", 2)):
        (tmp_path / name).write_text("".join(f"{n % 2} {feature}:{n}\n" for n in range(6)))
    assert main(["svm", "train", str(tmp_path / "train"), "--output", str(tmp_path / "machine")]) == 0
    assert main(["svm", "predict", str(tmp_path / "machine"), str(tmp_path / "wide")]) == 1
    assert "has feature 2; the machine was trained on 1" in capsys.readouterr().err
