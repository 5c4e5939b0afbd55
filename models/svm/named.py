"""Sets of samples by name, as files or from Debian's packages. To add a set, write its function into SETS."""

from pathlib import Path

import numpy as np

from models.data.files import DataError, read_text, require_directory
from models.data.images.fashion_mnist import DIRECTORY, REMEDY, read_part
from models.data.r_files import read_data_frame
from models.svm.files import read_libsvm
from models.svm.storage import lean

R_PACKAGES = "/usr/lib/R/site-library"
EXAMPLES = "/usr/share/doc/liblinear-tools/examples"


def load_samples(name: str, classes=None, count: int | None = None, width: int | None = None):
    """Return (rows, labels) of a set in SETS, such as "letter" or "letter:DIR", or of a file in LIBSVM's format.

    rows: (n, width) float64, CSR if most values are 0; labels: (n,) int64.  classes: keep only samples with these
    labels.  count: keep only the first of them.  width: see ``read_libsvm``.
    Local. Raises DataError or ValueError if there are no such samples.
    """
    kind, _, directory = name.partition(":")
    if kind in SETS and not Path(name).exists():
        rows, labels = SETS[kind](directory)
        if width is not None and rows.shape[1] != width:
            raise ValueError(f"{name} has {rows.shape[1]} features; the machine was trained on {width}")
    else:
        rows, labels = read_libsvm(name, width)
    if classes:
        kept = np.isin(labels, classes)
        rows, labels = rows[kept], labels[kept]
    if not len(labels):
        raise ValueError(f"{name} has no sample of the classes {', '.join(map(str, classes))}")
    return lean(rows[:count]), labels[:count]


def _standardised(columns):
    """Return columns as rows, each feature with mean 0 and variance 1."""
    rows = np.column_stack([np.asarray(column, np.float64) for column in columns])
    deviation = rows.std(axis=0)
    return (rows - rows.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)


def _of_r(package: str, file: str, frame: str, label: str, directory: str):
    """Return (rows, labels) of a data frame in a package of R; ``label`` is the column with the class."""
    remedy = f"install Debian's package r-cran-{package}, or give the directory of its file {file}"
    directory = Path(directory or f"{R_PACKAGES}/{package}/data")
    columns = read_data_frame(require_directory(directory, remedy) / file, frame, remedy)
    labels = columns.pop(label)
    return _standardised(columns.values()), labels


def letters(directory: str = ""):
    """Return 20,000 printed letters by 16 features of their shape; A to Z are the labels 0 to 25. Local."""
    return _of_r("mlbench", "LetterRecognition.rda", "LetterRecognition", "lettr", directory)


def halves_of_letters(directory: str = ""):
    """Return the same letters; A to M have label 0, N to Z label 1. Local. Raises DataError."""
    rows, labels = letters(directory)
    return rows, labels // 13


def shuttle(directory: str = ""):
    """Return 58,000 states of a space shuttle by 9 sensors, of 7 classes. Local. Raises DataError."""
    return _of_r("mlbench", "Shuttle.rda", "Shuttle", "Class", directory)


def spam(directory: str = ""):
    """Return 4,601 messages by 57 frequencies of words and characters; spam has label 1. Local. Raises DataError."""
    return _of_r("kernlab", "spam.rda", "spam", "type", directory)


def fashion(directory: str = ""):
    """Return 60,000 pictures of clothes, 784 pixels from 0 to 1, of 10 classes. Local. Raises DataError."""
    images, labels = read_part(require_directory(directory or DIRECTORY, REMEDY), "train")
    return images.reshape(len(images), -1) / 255.0, labels


def breast_cancer(directory: str = ""):
    """Return 569 tumours by 30 features of their cells; label 1 is benign. Local. Raises DataError."""
    try:
        from sklearn.datasets import load_breast_cancer
    except ImportError:
        raise DataError("breast_cancer comes with scikit-learn, which is not installed; "
                        "pip install scikit-learn") from None
    rows, labels = load_breast_cancer(return_X_y=True)
    return _standardised(rows.T), labels.astype(np.int64)


def heart(directory: str = ""):
    """Return 270 patients by 13 features, already between -1 and 1. Local. Raises DataError."""
    path = Path(directory or EXAMPLES) / "heart_scale"
    read_text(path, "install Debian's package liblinear-tools, or give the directory of its file heart_scale")
    return read_libsvm(path)


SETS = {"letter": halves_of_letters, "letter-26": letters, "shuttle": shuttle, "spam": spam, "fashion-mnist": fashion,
        "breast_cancer": breast_cancer, "heart_scale": heart}
