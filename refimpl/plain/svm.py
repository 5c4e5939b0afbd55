"""A support vector machine, trained on samples that are dealt to the ranks. Samples that cannot matter are left out.

Each sample x_i with its label y_i = +1 or -1 has a weight α_i in [0, C]. The training maximises

    Σ α_i - 1/2 Σ Σ α_i α_j y_i y_j K(x_i, x_j)   with   Σ α_i y_i = 0,   K(x, z) = exp(-γ |x - z|²)

Sequential minimal optimisation changes two weights at a time, so that the sum stays 0. With the error

    F_i = Σ_j α_j y_j K(x_j, x_i) - y_i

the pair is ``up``, the sample of smallest F whose α y can grow, and ``low``, the one of largest F whose α y can shrink.
The weights are optimal when the gap F_low - F_up is at most 2 τ. Most samples end with α = 0 or C and stay there. Such
a sample can become only one end, ``up`` or ``low``. If its F shows that it cannot be chosen as this end now, it is
eliminated: nobody computes its F any more. That is a guess. So at the end the F of the eliminated is reconstructed from
all weights above 0, and the training goes on if the gap is open.

Every number is computed as one rank would compute it, and ties go to the sample that comes first. So the weights have
the same bits on any number of ranks. Source: Vishnu et al., arXiv 1406.5161; Keerthi et al. 2001 for the pair.

    mpirun -n 4 python -m refimpl.plain.svm
"""

import hashlib

import numpy as np
from mpi4py import MPI

from kernels.svm.definition import KernelFunction, kernel_row
from refimpl.plain.messages import Messages


class SupportVectors:
    """This rank's samples and their weights. Of N ranks, rank r keeps samples r, r + N, r + 2 N, … Local to make.

    rows: (n, width) float64, all samples.  labels: (n,) of +1 and -1.  period: iterations between two eliminations.
    """

    def __init__(self, messages, rows, labels, c=10.0, gamma=0.1, tolerance=1e-3, period=100):
        self.messages, self.c, self.gamma, self.tolerance, self.period = messages, c, gamma, tolerance, period
        self.ids = np.arange(messages.rank, len(rows), messages.size)
        self.rows, self.y = rows[self.ids], labels[self.ids].astype(float)
        self.alpha, self.error = np.zeros(len(self.ids)), -self.y
        self.active = np.ones(len(self.ids), bool)
        self.iterations = self.evaluations = 0

    def kernel(self, x, rows):
        """Return K(x, z) of each row z."""
        return kernel_row(KernelFunction("gaussian", self.gamma), x, rows)

    def can_grow(self):
        """Whether α y of each sample can grow: such a sample can be ``up``."""
        return np.where(self.y > 0, self.alpha < self.c, self.alpha > 0)

    def can_shrink(self):
        """Whether α y of each sample can shrink: such a sample can be ``low``."""
        return np.where(self.y > 0, self.alpha > 0, self.alpha < self.c)

    def extremes(self):
        """Return (F, number) of ``up`` and of ``low`` among the active samples of all ranks. Collective."""
        found = []
        for sign, allowed in ((1, self.can_grow()), (-1, self.can_shrink())):
            errors = np.where(self.active & allowed, sign * self.error, np.inf)
            best = errors.argmin() if len(errors) else None  # the first one of equals
            found.append([errors[best], self.ids[best]] if len(errors) and errors[best] < np.inf else [np.inf, -1])
        everybody = np.array(self.messages.gather(np.array(found), "pairs"))
        (up, i), (low, j) = (min(map(tuple, everybody[:, k])) for k in (0, 1))  # of equal errors the first sample
        return (up, int(i)), (-low, int(j))

    def share(self, chosen):
        """Return (α, y, x) of the samples that ``chosen`` marks on all ranks, in the order of ``ids``. Collective."""
        whole = np.column_stack([self.ids, self.alpha, self.y, self.rows])[chosen]
        everybody = np.concatenate(self.messages.gather(whole, "rows"))
        everybody = everybody[np.argsort(everybody[:, 0])]
        return [(row[1], row[2], row[3:]) for row in everybody]

    def improve(self, up, low):
        """Take from α y of ``low`` and add to α y of ``up``: the best step within [0, C]. Update F. Collective."""
        (f_up, i), (f_low, j) = up, low
        pair = self.share((self.ids == i) | (self.ids == j))
        (a, y, x), (b, z, w) = pair if i < j else pair[::-1]  # weight, label and sample of ``up``, then of ``low``
        curvature = 2 - 2 * self.kernel(x, w[None])[0]  # K(x, x) + K(w, w) - 2 K(x, w)
        room = self.c - a if y > 0 else a, b if z > 0 else self.c - b  # how far each weight can move
        step = min((f_low - f_up) / max(curvature, 1e-12), *room)
        near, far = self.kernel(x, self.rows[self.active]), self.kernel(w, self.rows[self.active])
        self.error[self.active] += step * near - step * far
        self.evaluations += len(near) + len(far)
        for number, old, label, sign, limit in ((i, a, y, 1, room[0]), (j, b, z, -1, room[1])):
            end = self.c if sign * label > 0 else 0.0  # a weight that uses all its room ends exactly here
            self.alpha[self.ids == number] = end if step == limit else old + sign * label * step
        self.iterations += 1

    def eliminated(self, up, low):
        """Return which samples can no longer be an end of the gap, as far as F shows today."""
        grow, shrink = self.can_grow(), self.can_shrink()
        return (shrink & ~grow & (self.error < up[0])) | (grow & ~shrink & (self.error > low[0]))

    def descend(self):
        """Close the gap of the active samples. Collective."""
        while True:
            up, low = self.extremes()
            if low[0] - up[0] <= 2 * self.tolerance:
                return
            if self.iterations and self.iterations % self.period == 0:
                self.active &= ~self.eliminated(up, low)
            self.improve(up, low)

    def reconstruct(self):
        """Compute F of the eliminated anew, adding in the order of sample numbers; all are active again. Collective."""
        gone = ~self.active
        self.error[gone] = -self.y[gone]
        for alpha, y, x in self.share(self.alpha > 0):
            self.error[gone] += alpha * y * self.kernel(x, self.rows[gone])
            self.evaluations += gone.sum()
        self.active[:] = True

    def train(self):
        """Close the gap of all samples; return the bias: a new x is of the class sign(Σ α y K - bias). Collective."""
        while True:
            self.descend()
            self.reconstruct()
            (up, _), (low, _) = self.extremes()
            if low - up <= 2 * self.tolerance:
                return (up + low) / 2


def two_rings(samples=400, seed=1):
    """Return rows and labels of two noisy rings, one inside the other."""
    draw = np.random.default_rng(seed)
    labels = np.where(np.arange(samples) % 3 == 0, 1, -1)
    angle, radius = draw.uniform(0, 2 * np.pi, samples), 2.0 + labels + 0.6 * draw.standard_normal(samples)
    return np.column_stack([radius * np.cos(angle), radius * np.sin(angle)]), labels


def main(comm=MPI.COMM_WORLD):
    """Train with and without elimination; print what each needs."""
    for name, period in (("all samples", 10**9), ("elimination", 50)):
        machine = SupportVectors(Messages(comm), *two_rings(), period=period)
        bias = machine.train()
        weights = machine.share(machine.alpha > 0)
        evaluations, sent = comm.allreduce(machine.evaluations), comm.allreduce(sum(machine.messages.sent.values()))
        digest = hashlib.sha256(np.array([*(alpha for alpha, _, _ in weights), bias]).tobytes()).hexdigest()
        if comm.rank == 0:
            print(f"{name}: {machine.iterations} iterations, {evaluations:,} kernel evaluations, {sent:,} B, "
                  f"{len(weights)} support vectors, bias {bias:.6f}, sha256 {digest[:12]}", flush=True)


if __name__ == "__main__":
    main()
