"""The plain support vector machine: optimal by conditions computed apart, whoever holds the samples, bytes by formula."""

import numpy as np
import pytest

from refimpl.plain.messages import Messages
from refimpl.plain.svm import SupportVectors, two_rings

SAMPLES, WIDTH, PERIOD = 203, 2, 20


class Counted(SupportVectors):
    """It counts what is agreed on and what is shared. ``wrong``: it also eliminates every sample of weight 0."""

    wrong = False
    meetings = shared = 0

    def extremes(self):
        self.meetings += 1
        return super().extremes()

    def share(self, chosen):
        found = super().share(chosen)
        self.shared += len(found)
        return found

    def eliminated(self, up, low):
        return (self.beta == 0) if self.wrong else super().eliminated(up, low)


class Approximate(Counted):
    """It never looks at the eliminated again."""

    def reconstruct(self):
        self.active[:] = True


def trained(comm, kind=Counted, wrong=False, **options):
    machine = kind(Messages(comm), *two_rings(SAMPLES), **options)
    machine.wrong = wrong
    return machine, machine.train()


def weights(machine, comm):
    """β of all samples, in their order."""
    found = np.zeros(SAMPLES)
    for ids, beta in comm.allgather((machine.ids, machine.beta)):
        found[ids] = beta
    return found


def gap(beta, c=10.0, gamma=0.1):
    """F_low - F_up of all samples, from the whole kernel matrix, and the sum of β = α y."""
    rows, y = two_rings(SAMPLES)
    kernels = np.exp(-gamma * ((rows[:, None] - rows) ** 2).sum(axis=2))
    error, alpha = beta @ kernels - y, beta * y
    grow, shrink = np.where(y > 0, alpha < c, alpha > 0), np.where(y > 0, alpha > 0, alpha < c)
    return error[shrink].max() - error[grow].min(), beta.sum()


@pytest.fixture(scope="module")
def alone():
    from mpi4py import MPI

    return MPI.COMM_SELF


@pytest.mark.parametrize("c", [0.5, 10.0])
@pytest.mark.parametrize("period", [10**9, PERIOD, 1])
def test_the_weights_are_optimal_on_all_samples(alone, c, period):
    machine, bias = trained(alone, c=c, period=period)
    left, balance = gap(machine.beta, c)
    assert left <= 2e-3 + 1e-9 and abs(balance) < 1e-9  # 1e-9: both add F in another order
    alpha = machine.beta * machine.y
    assert (alpha >= 0).all() and (alpha <= c).all() and (alpha == c).any()
    rows, labels = two_rings(SAMPLES)
    decided = sum(beta * machine.kernel(x, rows) for beta, _, x in machine.share(machine.beta != 0)) - bias
    assert (np.sign(decided) == labels).mean() > 0.9


def test_elimination_saves_evaluations(alone):
    assert trained(alone, period=PERIOD)[0].evaluations < 0.6 * trained(alone, period=10**9)[0].evaluations


def test_wrong_eliminations_are_put_right_by_reconstruction_alone(alone):
    assert gap(trained(alone, wrong=True, period=PERIOD)[0].beta)[0] <= 2e-3 + 1e-9
    assert gap(trained(alone, Approximate, wrong=True, period=PERIOD)[0].beta)[0] > 0.1


@pytest.mark.mpi
@pytest.mark.ranks(3, 4)
def test_any_number_of_ranks_gives_the_bits_of_one_and_the_bytes_of_the_formula(comm, alone):
    machine, bias = trained(comm, period=PERIOD)
    single, expected = trained(alone, period=PERIOD)
    assert (bias, machine.iterations) == (expected, single.iterations)
    assert weights(machine, comm).tobytes() == single.beta.tobytes()
    assert comm.allreduce(machine.evaluations) == single.evaluations
    sent, others = comm.allreduce(sum(machine.messages.sent.values())), comm.size - 1
    assert sent == others * (comm.size * 32 * machine.meetings + 8 * (3 + WIDTH) * machine.shared)


@pytest.mark.mpi
@pytest.mark.ranks(4)
def test_a_rank_without_samples_takes_part(comm, alone):
    rows, labels = np.array([[0.0], [1.0], [3.0]]), np.array([1, -1, -1])
    biases = [SupportVectors(Messages(ranks), rows, labels).train() for ranks in (comm, alone)]
    assert biases[0] == biases[1]
