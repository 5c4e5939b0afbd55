"""LIBSVM's text format, and trained machines in a safetensors file."""

import json
from itertools import chain

import numpy as np
from scipy.sparse import csr_array, issparse
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from kernels.svm.definition import KernelFunction
from models.data.files import read_text
from models.svm.classes import PairMachine, SvmClassifier

FORMAT = "refimpl svm 1"
REMEDY = "give a file with lines LABEL FEATURE:VALUE …, or a set that svm train --help names"


def read_libsvm(path, width: int | None = None):
    """Return (rows, labels) of a file. A line is a sample: "LABEL FEATURE:VALUE …", with rising features from 1.

    rows: (n, width) float64, CSR; a missing feature is 0.  labels: (n,) int64.  width: None: the largest feature.
    Local. Raises ValueError, which names file and line, for an invalid line; DataError if the file cannot be read.
    """
    labels, places, values = [], [], []
    for number, line in enumerate(read_text(path, REMEDY).splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        try:
            labels.append(_whole(words[0]))
            features = [word.split(":") for word in words[1:]]
            columns, numbers = [int(column) - 1 for column, _ in features], [float(value) for _, value in features]
            if any(a >= b for a, b in zip([-1, *columns], columns)):
                raise ValueError("features must rise from 1 on")
            if not np.isfinite(numbers).all():
                raise ValueError("give finite numbers")
        except ValueError as problem:
            raise ValueError(f"line {number} of {path} is no sample (LABEL FEATURE:VALUE …): {problem}") from problem
        places.append(columns)
        values.append(numbers)
    if not labels:
        raise ValueError(f"{path} has no sample")
    largest = max((columns[-1] + 1 for columns in places if columns), default=0)
    if width is not None and largest > width:
        raise ValueError(f"{path} has feature {largest}; the machine was trained on {width}")
    starts = np.cumsum([0, *map(len, places)])
    columns, numbers = np.fromiter(chain(*places), np.int64), np.fromiter(chain(*values), np.float64)
    shape = len(labels), largest if width is None else width
    return csr_array((numbers, columns, starts), shape), np.array(labels)


def _whole(text: str) -> int:
    label = float(text)
    if not label.is_integer():
        raise ValueError(f"the label {text} is no whole number: this is for classes, not for regression")
    return int(label)


def save_classifier(path, classifier: SvmClassifier):
    """Write a classifier to a safetensors file. Local. Raises OSError if it cannot be written."""
    arrays = {"classes": np.asarray(classifier.classes)}
    for number, machine in enumerate(classifier.machines):
        arrays |= {f"{number}/coefficients": machine.coefficients, f"{number}/bias": np.array([machine.bias])}
        if issparse(machine.vectors):
            found = csr_array(machine.vectors)
            arrays |= {f"{number}/values": found.data, f"{number}/columns": found.indices,
                       f"{number}/starts": found.indptr, f"{number}/width": np.array(found.shape[1:])}
        else:
            arrays[f"{number}/vectors"] = np.ascontiguousarray(machine.vectors)
    try:
        save_file(arrays, path, {"format": FORMAT, "kernel": json.dumps(classifier.kernel._asdict())})
    except SafetensorError as problem:
        raise OSError(f"{path} cannot be written: {problem}") from problem


def load_classifier(path) -> SvmClassifier:
    """Return the classifier in a file. Local. Raises ValueError if the file contains none."""
    try:
        with safe_open(path, "numpy") as file:
            about = file.metadata() or {}
            if about.get("format") != FORMAT:
                raise ValueError(f"{path} is of the format {about.get('format')!r}, not {FORMAT!r}: train it again")
            found = {name: file.get_tensor(name) for name in file.keys()}
    except SafetensorError as problem:
        raise ValueError(f"{path} is no trained machine: {problem}") from problem
    count = sum(name.endswith("/bias") for name in found)
    machines = tuple(PairMachine(_vectors(found, n), found[f"{n}/coefficients"], float(found[f"{n}/bias"][0]))
                     for n in range(count))
    return SvmClassifier(KernelFunction(**json.loads(about["kernel"])), found["classes"], machines)


def _vectors(found, number):
    if (vectors := found.get(f"{number}/vectors")) is not None:
        return vectors
    columns, starts = found[f"{number}/columns"], found[f"{number}/starts"]
    return csr_array((found[f"{number}/values"], columns, starts), (len(starts) - 1, *found[f"{number}/width"]))
