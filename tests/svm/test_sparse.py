"""CSR rows give the bits of dense rows: kernel values, weights, decisions, files; and what they refuse."""

import numpy as np
import pytest
from scipy.sparse import csr_array, random_array

from kernels.svm.definition import KINDS, KernelFunction, kernel_row
from models.svm.classes import train_classifier
from models.svm.files import load_classifier, read_libsvm, save_classifier
from models.svm.solver import SvmOptions
from models.svm.storage import VectorPacking, lean, stored

SAMPLES, WIDTH = 131, 57
rng = np.random.default_rng(5)
ROWS = csr_array(random_array((SAMPLES, WIDTH), density=0.1, rng=rng, data_sampler=rng.standard_normal))
LABELS = np.where(ROWS.toarray() @ rng.standard_normal(WIDTH) + 0.3 * rng.standard_normal(SAMPLES) > 0, 3, 1)
KERNELS = [KernelFunction(kind, 0.1, 3, 1.0) for kind in KINDS]


@pytest.mark.parametrize("kernel", KERNELS, ids=KINDS)
def test_kernel_values_are_those_of_dense_rows(kernel):
    store, whole = stored(ROWS, kernel), ROWS.toarray()
    store.swap(np.array([[3, 100]]))
    order = np.arange(SAMPLES)
    order[[3, 100]] = 100, 3
    found = np.full((1, SAMPLES), np.nan)
    for number in (0, 3, 77):
        vectors = store.vectors(np.array([number]))
        store.fill(vectors, np.array([0]), np.array([5]), SAMPLES, found)
        expected = kernel_row(kernel, whole[order[number]], whole[order])
        assert found[0, 5:].tobytes() == expected[5:].tobytes() and np.isnan(found[0, :5]).all()
        assert store.value(vectors[0], store.vectors(np.array([9]))[0]) == expected[9]


@pytest.mark.parametrize("kernel", KERNELS, ids=KINDS)
@pytest.mark.parametrize("cache", [1, 1 << 20])
def test_a_machine_is_that_of_dense_rows(tmp_path, kernel, cache):
    options = SvmOptions(5.0, 1e-2, period=20, cache=cache)
    machine, (solver,) = train_classifier(ROWS, LABELS, kernel, options)
    expected, (other,) = train_classifier(ROWS.toarray(), LABELS, kernel, options)
    assert machine.sha256() == expected.sha256() and solver.objective == other.objective
    decided = expected.decide(ROWS.toarray()).tobytes()
    save_classifier(tmp_path / "machine", machine)
    for each in (machine, expected, load_classifier(tmp_path / "machine")):
        assert each.decide(ROWS).tobytes() == each.decide(ROWS.toarray()).tobytes() == decided
    assert load_classifier(tmp_path / "machine").sha256() == expected.sha256()


def test_vectors_travel_as_columns_and_values():
    packing, store, numbers = VectorPacking(ROWS), stored(ROWS, KERNELS[0]), [7, 0, 130]
    packed = packing.pack(store.vectors(np.array(numbers)))
    assert len(packed) == packing.counts(numbers).sum() == 2 * sum(ROWS[[number]].nnz for number in numbers)
    for number, (columns, values) in zip(numbers, packing.unpack(packed, numbers)):
        assert columns.tolist() == ROWS[[number]].indices.tolist() and values.tolist() == ROWS[[number]].data.tolist()


def test_columns_in_disorder_and_twice_are_put_in_order():
    rows = csr_array((np.array([1.0, 2.0, 3.0]), np.array([4, 1, 4]), np.array([0, 3])), (1, 5))
    ((columns, values),) = stored(rows, KERNELS[0]).vectors(np.array([0]))
    assert columns.tolist() == [1, 4] and values.tolist() == [2.0, 4.0]


def test_rows_with_few_zeros_are_kept_dense():
    assert isinstance(lean(np.eye(33)), csr_array) and isinstance(lean(csr_array(np.eye(32))), np.ndarray)


def test_a_value_that_is_not_finite_is_named():
    rows = csr_array(np.array([[0.0, 1.0, 0.0], [0.0, 2.0, np.nan]]))
    with pytest.raises(ValueError, match="feature 2 of sample 1 is nan"):
        train_classifier(rows, np.array([1, 2]), KERNELS[0], SvmOptions())


def test_a_file_of_a_million_features_is_read_and_learnt(tmp_path):
    lines = (f"{n % 2} {1 + n % 2}:1 {1000 * (n + 1)}:0.5 1000000:1\n" for n in range(90))
    (tmp_path / "wide").write_text("".join(lines))
    rows, labels = read_libsvm(tmp_path / "wide")
    machine, _ = train_classifier(lean(rows), labels, KernelFunction("linear"), SvmOptions(10.0))
    assert rows.shape == (90, 1_000_000) and (machine.predict(rows) == labels).all()
