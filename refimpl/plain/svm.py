"""A support vector machine. Its samples are divided among the ranks, and samples that cannot matter are left out.

Each sample x_i with its label y_i = +1 or -1 has a weight α_i in [0, C]. The training maximises

    Σ α_i - 1/2 Σ Σ α_i α_j y_i y_j K(x_i, x_j)   with   Σ α_i y_i = 0,   K(x, z) = exp(-γ |x - z|²)

The program keeps β_i = α_i y_i. Sequential minimal optimisation changes two of them at a time, so that the sum stays 0.
With the error F_i = Σ_j β_j K(x_j, x_i) - y_i the pair is ``up``, the sample of smallest F whose β can grow, and
``low``, the one of largest F whose β can shrink. The weights are optimal when the gap F_low - F_up is at most 2 τ.

Most samples end with α = 0 or C and stay there. Such a sample can become only one end, ``up`` or ``low``. If its F
shows that it cannot be chosen as this end now, it is eliminated: its F is no longer computed. That is a guess. So at
the end F of the eliminated samples is computed from all weights, and the training continues if the gap is open.

Every number is computed as one rank would compute it, and of equal samples the first is taken. So the weights have the
same bits on any number of ranks. Source: Vishnu et al., arXiv 1406.5161; Keerthi et al. 2001 for the pair.

    mpirun -n 4 python -m refimpl.plain.svm
"""

import hashlib
from functools import partial

import numpy as np
from mpi4py import MPI

from kernels.svm.definition import KernelFunction, kernel_row
from refimpl.plain.messages import Messages


class SupportVectors:
    """This rank's samples and their weights. Of N ranks, rank r keeps samples r, r + N, r + 2 N, …

    rows: (n, width) float64, all samples.  labels: (n,) of +1 and -1.  period: iterations between two eliminations.
    """

    def __init__(self, messages, rows, labels, c=10.0, gamma=0.1, tolerance=1e-3, period=100):
        self.messages, self.c, self.tolerance, self.period = messages, c, tolerance, period
        self.kernel = partial(kernel_row, KernelFunction("gaussian", gamma))  # (x, rows) -> K(x, z) of each row z
        self.ids = np.arange(messages.rank, len(rows), messages.size)
        self.rows, self.y = rows[self.ids], labels[self.ids].astype(float)
        self.beta, self.error = np.zeros(len(self.ids)), -self.y
        self.least, self.most = np.where(self.y > 0, 0.0, -c), np.where(self.y > 0, c, 0.0)  # bounds of β
        self.active = np.ones(len(self.ids), bool)
        self.iterations = self.evaluations = 0

    def extremes(self):
        """Return (F, number) of ``up`` and of ``low`` among the active samples of all ranks. Collective."""
        found = []
        for sign, allowed in ((1, self.beta < self.most), (-1, self.beta > self.least)):  # the largest F: smallest -F
            errors = np.append(np.where(self.active & allowed, sign * self.error, np.inf), np.inf)  # inf: no sample
            best = errors.argmin()  # the first one of equals
            found.append([errors[best], np.append(self.ids, -1)[best]])
        everybody = np.array(self.messages.gather(np.array(found), "pairs"))
        (up, i), (low, j) = (min(map(tuple, everybody[:, k])) for k in (0, 1))  # of equal errors the first sample
        return (up, int(i)), (-low, int(j))

    def share(self, chosen):
        """Return (β, y, x) of the samples that ``chosen`` marks on all ranks, in the order of ``ids``. Collective."""
        whole = np.column_stack([self.ids, self.beta, self.y, self.rows])[chosen]
        everybody = np.concatenate(self.messages.gather(whole, "rows"))
        everybody = everybody[np.argsort(everybody[:, 0])]
        return [(row[1], row[2], row[3:]) for row in everybody]

    def improve(self, up, low):
        """Add to β of ``up`` and take from β of ``low``: the best step within the bounds. Update F. Collective."""
        (f_up, i), (f_low, j) = up, low
        pair = self.share((self.ids == i) | (self.ids == j))
        (a, y, x), (b, z, w) = pair if i < j else pair[::-1]  # β, label and sample of ``up``, then of ``low``
        curvature = 2 - 2 * self.kernel(x, w[None])[0]  # K(x, x) + K(w, w) - 2 K(x, w)
        most, least = self.c if y > 0 else 0.0, 0.0 if z > 0 else -self.c
        step = min((f_low - f_up) / max(curvature, 1e-12), most - a, b - least)
        self.beta[self.ids == i] = most if step == most - a else a + step  # a step to a bound ends exactly there
        self.beta[self.ids == j] = least if step == b - least else b - step
        near, far = self.kernel(x, self.rows[self.active]), self.kernel(w, self.rows[self.active])
        self.error[self.active] += step * near - step * far
        self.evaluations += len(near) + len(far)
        self.iterations += 1

    def eliminated(self, up, low):
        """Return which samples cannot be an end of the gap with their present F."""
        grow, shrink = self.beta < self.most, self.beta > self.least
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
        """Compute F of the eliminated samples, in the order of sample numbers; make all samples active. Collective."""
        gone = ~self.active
        self.error[gone] = -self.y[gone]
        for beta, _, x in self.share(self.beta != 0):
            self.error[gone] += beta * self.kernel(x, self.rows[gone])
            self.evaluations += gone.sum()
        self.active[:] = True

    def train(self):
        """Close the gap of all samples; return the bias: a new x is of the class sign(Σ β K - bias). Collective."""
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
        weights = machine.share(machine.beta != 0)
        evaluations, sent = comm.allreduce(machine.evaluations), comm.allreduce(sum(machine.messages.sent.values()))
        digest = hashlib.sha256(np.array([*(abs(beta) for beta, _, _ in weights), bias]).tobytes()).hexdigest()
        if comm.rank == 0:
            print(f"{name}: {machine.iterations} iterations, {evaluations:,} kernel evaluations, {sent:,} B, "
                  f"{len(weights)} support vectors, bias {bias:.6f}, sha256 {digest[:12]}", flush=True)


if __name__ == "__main__":
    main()
