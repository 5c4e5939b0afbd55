"""PowerSGD: a gradient matrix as the product of two thin ones. Both are sums over microbatches, so the tree adds them.

    M (m, n) = Σ M_v        Q (n, r)
    P = Σ M_v Q             summed by the tree: 4 r m bytes
    P = orthonormal(P)      every rank computes the same
    Q = Σ M_vᵀ P            summed by the tree: 4 r n bytes
    decoded: P Qᵀ           the same on all ranks; equal to M if M has at most r independent columns

This is one step of the power iteration. Both products are linear in the gradients, so the parts M_v Q add up to M Q.
The next step begins with this step's Q, which therefore belongs to the state. A unit is a microbatch. Each unit keeps
what P Qᵀ leaves out of its gradient, M_v - P Pᵀ M_v (``residuals``); the sum of these is M - P Qᵀ.

    python -m refimpl.plain.encoding.power_sgd
"""

import hashlib

import numpy as np

from refimpl.plain.adding.tree import sum_on


def first_q(drawn, rank):
    """Return the Q of the first step, (n, r) float32: the same on every rank, and never drawn again.

    drawn: (n r,) random numbers in [0, 1).
    """
    return (drawn - 0.5).astype(np.float32).reshape(-1, rank)


def orthonormal(p):
    """Return an orthonormal basis of the columns, by Gram and Schmidt; a column without anything new becomes 0."""
    p = p.astype(np.float64)
    for i in range(p.shape[1]):
        before, length = p[:, :i], np.sqrt(np.sum(p[:, i] ** 2))
        for _ in range(2):  # once is not enough in floating point
            p[:, i] -= before @ (before.T @ p[:, i])
        left = np.sqrt(np.sum(p[:, i] ** 2))
        p[:, i] = p[:, i] / left if left > 1e-6 * length else 0
    return p.astype(np.float32)


def compressed(matrices, q, summed):
    """Return (decoded sum (m, n), Q of the next step, what each unit keeps back).

    matrices: each unit's gradient with what it kept back before, (m, n).  summed(parts) -> their sum by the tree.
    """
    p = orthonormal(summed([matrix @ q for matrix in matrices]))
    q = summed([matrix.T @ p for matrix in matrices])
    return p @ q.T, q, [matrix - p @ (p.T @ matrix) for matrix in matrices]


def main(rank=2):
    """Three steps with the same eight gradients, matrices of nearly rank 2, on 1, 3 and 8 processes."""
    draw = np.random.default_rng(0)
    thin = draw.standard_normal((40, 2)) @ draw.standard_normal((2, 25))
    gradients = (draw.uniform(0, 1, (8, 1, 1)) * thin + draw.normal(0, 0.01, (8, 40, 25))).astype(np.float32)
    for ranks in (1, 3, 8):
        q, kept = first_q(np.random.default_rng(1).random(25 * rank), rank), np.zeros_like(gradients)
        for step in range(1, 4):
            whole = (gradients + kept).sum(axis=0, dtype=np.float64)
            decoded, q, kept = compressed(
                list(gradients + kept), q, lambda parts: sum_on(ranks, parts, np.add))
            missed = np.linalg.norm(decoded - whole) / np.linalg.norm(whole)
            print(f"{ranks} ranks, step {step}: {4 * rank * (40 + 25)} B of {whole.size * 4}, missed {missed:.4f}, "
                  f"decoded {hashlib.sha256(decoded.tobytes()).hexdigest()[:8]}")


if __name__ == "__main__":
    main()
