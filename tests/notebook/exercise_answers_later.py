"""Answers of readers to the exercises of lessons 8 to 15: right ones, unfinished ones, and wrong ones with their hints."""

from fractions import Fraction

import numpy as np
from exercise_answers import unfinished

from refimpl.notebook.exercises import (
    channel, compression, elimination, mesh, survival, translation, trees, without_barriers,
)

TABLE = 128 * 51 / translation.ROWS
PARTS = [part / (translation.DENSE + translation.SPARSE) for part in (translation.DENSE, translation.SPARSE)]
HALF = Fraction(1, 2)
PATHS = [[(0, 1), (1, 2)], [(1, 2), (2, 0)], [(2, 0), (0, 1)]]


def attend(scores, vectors, length):
    weights = np.exp(scores[:length] - scores[:length].max())
    return weights @ vectors[:length] / weights.sum()


def ordered(seconds, backup):
    return sorted(seconds)[len(seconds) - backup - 1]


def summed(grads, weights):
    return sum(grad @ weight for grad, weight in zip(grads, weights))


def feedback(gradient, residual, codec):
    v = gradient + residual
    return codec(v), v - codec(v)


def groups(ranks, batch, inputs, outputs):
    return min((g for g in range(1, ranks + 1) if ranks % g == 0), key=lambda g: batch / g + outputs * g / ranks)


FUNCTIONS = [
    (translation.check_attend, attend),
    (translation.check_gain, lambda d, s, alpha, n: (d + min(alpha * n / 2, 1) * s) / (d + alpha * s)),
    (without_barriers.check_answers, lambda clocks, worker, s: clocks[worker] - min(clocks) <= s),
    (without_barriers.check_step_seconds, ordered),
    (without_barriers.check_compensated, lambda g, w, b, lam: g + lam * g**2 * (w - b)),
    (mesh.check_input_gradient, summed), (mesh.check_crossing, lambda p, i, o, k: p / (k * i + o)),
    (mesh.check_groups, groups), (survival.check_partner, lambda rank, ranks, each: (rank + each) % ranks),
    (channel.check_may_write, lambda written, read, slots: written - read < slots),
    (elimination.check_may_go, lambda grows, shrinks, error, up, low: (
        grows and not shrinks and error > low) or (shrinks and not grows and error < up)),
    (compression.check_feedback, feedback),
]
RIGHT = [
    *FUNCTIONS, (translation.check_most, PARTS[0] + PARTS[1] * TABLE),
    (trees.check_rate, 200), (trees.check_rate, 300 / 1.5), (trees.check_parts, [{0, 1, 2}, {3, 4, 5}]),
    (trees.check_packing, [(HALF, path) for path in PATHS]),
    (trees.check_packing, [(0.5, [cable[::-1] for cable in path]) for path in PATHS]),
    (survival.check_nodes, [(4, 5), (2, 4)]), (survival.check_bytes, 9_600_000),
    (survival.check_partner, lambda rank, ranks, each: (rank - each) % ranks),
    (channel.check_size, 90_000), (channel.check_bytes, 256_048), (elimination.check_bytes, 15_360),
    (compression.check_microbatches, 64),
]
UNFINISHED = [(check, unfinished) for check, _ in FUNCTIONS]
WRONG = [
    (translation.check_attend, lambda e, m, n: attend(e, m, len(e)), "2 words: a word that the sentence does not have"),
    (translation.check_attend, lambda e, m, n: np.exp(e[:n]) @ m[:n] / np.exp(e[:n]).sum(), "subtract the largest"),
    (translation.check_attend, lambda e, m, n: np.exp(e[:n]) @ m[:n], "by their sum"),
    (translation.check_attend, lambda e, m, n: np.exp(e[:n]), "as many numbers as a vector"),
    (translation.check_gain, lambda d, s, alpha, n: (d + alpha * n / 2 * s) / (d + alpha * s), "is rows by allgather"),
    (translation.check_gain, lambda d, s, alpha, n: (d + s) / (d + alpha * s), "that is tables sent whole"),
    (translation.check_gain, lambda d, s, alpha, n: min(n / 2, 1 / alpha), "dense elements are moved, too"),
    (translation.check_gain, lambda d, s, alpha, n: 1.0, "a dense element costs"),
    (translation.check_most, TABLE, "of one table"), (translation.check_most, PARTS[1] * TABLE, "dense elements are"),
    (translation.check_most, 1.0, "at most 128 sentences"),
    (without_barriers.check_answers, lambda clocks, worker, s: clocks[worker] - min(clocks) < s,
     "is 0 steps ahead of the slowest, and you let it wait: a lag of S is allowed"),
    (without_barriers.check_answers, lambda clocks, worker, s: clocks[worker] - min(clocks) <= s + 1, "reaches S + 1"),
    (without_barriers.check_answers, lambda clocks, worker, s: True, "you let it go on"),
    (without_barriers.check_answers, lambda clocks, worker, s: max(clocks) - clocks[worker] <= s, "ahead of the slow"),
    (without_barriers.check_answers, lambda clocks: True, "TypeError"),
    (without_barriers.check_step_seconds, lambda seconds, backup: max(seconds), "you say 3 s; that is longer than need"),
    (without_barriers.check_step_seconds, lambda seconds, backup: sorted(seconds)[len(seconds) - backup], "IndexError"),
    (without_barriers.check_step_seconds, lambda seconds, backup: sorted(seconds)[-max(backup, 1)], "3 pushes are"),
    (without_barriers.check_step_seconds, lambda seconds, backup: sum(seconds) / len(seconds), "in which they arrive"),
    (without_barriers.check_compensated, lambda g, w, b, lam: g, "stale gradient"),
    (without_barriers.check_compensated, lambda g, w, b, lam: g + lam * g**2 * (b - w), "not from x to old"),
    (without_barriers.check_compensated, lambda g, w, b, lam: g + lam * g * (w - b), "g times g"),
    (without_barriers.check_compensated, lambda g, w, b, lam: lam * g**2 * (w - b), "add it to g"),
    (without_barriers.check_compensated, lambda g, w, b, lam: g + lam * g**3 * (w - b), "another vector"),
    (without_barriers.check_compensated, lambda g, w, b, lam: np.ones(3), "another vector"),
    (mesh.check_input_gradient, lambda grads, weights: grads[0] @ weights[0], "one member's part"),
    (mesh.check_input_gradient, lambda grads, weights: np.hstack([g @ w for g, w in zip(grads, weights)]), "added up"),
    (mesh.check_input_gradient, lambda grads, weights: [g @ w for g, w in zip(grads, weights)], "but added up"),
    (mesh.check_input_gradient, lambda grads, weights: grads[0] @ weights[0].T, "ValueError"),
    (mesh.check_input_gradient, lambda grads, weights: -summed(grads, weights), "and weights (3, 5) of each should"),
    (mesh.check_crossing, lambda p, d, f, k: p / (k * (d + f)), "that is SplitBrain's"),
    (mesh.check_crossing, lambda p, d, f, k: p / (k * d + f) / 2, "the 2 stands on both sides"),
    (mesh.check_crossing, lambda p, d, f, k: p / (k * d), "you say 2049; set what is saved"),
    (mesh.check_crossing, lambda p, d, f: p, "TypeError"),
    (mesh.check_groups, lambda n, batch, i, o: round((n * batch / o) ** 0.5), "G divides N: 1"),
    (mesh.check_groups, lambda n, batch, i, o: n, "times the least"),
    (mesh.check_groups, lambda n, batch, i, o: 1, "N = 16, MB = 64, 512 -> 64: you say 1, which sends 2.5"),
    (trees.check_rate, 300, "each card would send one vector"), (trees.check_rate, 150, "its own part"),
    (trees.check_rate, 100, "how many vectors"),
    (trees.check_parts, [{0}, {1}, {2}, {3}, {4}, {5}], "no rate is higher than 7 / 5"),
    (trees.check_parts, [{0}, {1, 2, 3, 4, 5}], "higher than 2 / 1"),
    (trees.check_parts, [{0, 1, 2}, {3, 4}], "in exactly one"),
    (trees.check_parts, [{0, 1, 2}, {2, 3, 4, 5}], "in exactly one"),
    (trees.check_parts, [{0, 1, 2, 3, 4, 5}], "two parts or more"),
    (trees.check_packing, [(1, PATHS[0])], "add up to 1"),
    (trees.check_packing, [(1, PATHS[0]), (HALF, PATHS[1])], "want 3/2 of the cable between 1 and 2"),
    (trees.check_packing, [(1, [(0, 1)])], "tree 0, [(0, 1)], does not join"),
    (trees.check_packing, [(1, [(0, 1), (1, 2), (2, 0)])], "does not join"),
    (trees.check_packing, [(1, [(0, 3), (3, 2)])], "does not join"),
    (survival.check_nodes, [(2, 5)], "no node of the tree"), (survival.check_nodes, [(3, 5)], "count from 0"),
    (survival.check_nodes, [(2, 3), (3, 4), (4, 5)], "that is a node"),
    (survival.check_bytes, 3_200_000, "keep beside them"), (survival.check_bytes, 6_400_000, "must be copied, too"),
    (survival.check_bytes, 76_800_000, "the whole table"), (survival.check_bytes, 2_400_000, "these are numbers"),
    (survival.check_bytes, 1, "rows of one rank"),
    (survival.check_partner, lambda rank, ranks, each: (rank + 1) % ranks, "of 2 ranks rank 0 and its partner 1 die"),
    (survival.check_partner, lambda rank, ranks, each: rank + each, "What comes after the last"),
    (survival.check_partner, lambda rank, ranks, each: 0 if rank >= each else each, "gets several copies"),
    (channel.check_size, 100_000, "the whole includes the call"), (channel.check_size, 10_000, "the call is a half"),
    (channel.check_size, 10_000 / 9, "the other way round"), (channel.check_size, 1, "a shall be a tenth of both"),
    (channel.check_bytes, 256_000, "payload alone"), (channel.check_bytes, 256_016, "a static tensor"),
    (channel.check_bytes, 256_040, "a matrix has two"), (channel.check_bytes, 1, "n + m + 8"),
    (channel.check_may_write, lambda written, read, slots: True, "0 are free, and may_write says True"),
    (channel.check_may_write, lambda written, read, slots: written == read, "1 is free, and may_write says False"),
    (channel.check_may_write, lambda written, read, slots: written - read <= slots, "0 are free"),
    (elimination.check_may_go, lambda grows, shrinks, error, up, low: (
        grows and error > low) or (shrinks and error < up), "its weight is free"),
    (elimination.check_may_go, lambda grows, shrinks, error, up, low: not up <= error <= low, "its weight is free"),
    (elimination.check_may_go, lambda grows, shrinks, error, up, low: False, "it may go"),
    (elimination.check_may_go, lambda grows, shrinks, error, up, low: not (grows and shrinks), "it must stay"),
    (elimination.check_bytes, 7680, "two ends"), (elimination.check_bytes, 1920, "these are numbers"),
    (elimination.check_bytes, 245_760, "all ranks send together"), (elimination.check_bytes, 1024, "to how many ranks"),
    (elimination.check_bytes, 16_384, "nothing to itself"), (elimination.check_bytes, 1, "for each sample two numbers"),
    (compression.check_feedback, lambda g, e, codec: codec(g + e), "return two arrays"),
    (compression.check_feedback, lambda g, e, codec: (codec(g), g - codec(g)), "never sent"),
    (compression.check_feedback, lambda g, e, codec: (g + e, 0 * g), "what is encoded is the gradient and"),
    (compression.check_feedback, lambda g, e, codec: (codec(g + e), g - codec(g + e)), "sent and kept together"),
    (compression.check_microbatches, 8, "divide one by the other"),
    (compression.check_microbatches, 32, "each number twice"), (compression.check_microbatches, 1, "equal to"),
]
