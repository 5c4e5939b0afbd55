"""How many partitions P? Measure a few steps with a few P, fit a curve to the samples, and take its lowest point.

    t(P) = θ0 + θ1 / P + θ2 P      θ1 / P: work that is shared among partitions.  θ2 P: the cost of each partition.

Start at the number of machines. Double P while steps get faster. Then halve P, from the start, until they get slower.
Source: Parallax, section 4 (partitioning).

    python -m refimpl.plain.strategies.search
"""

import numpy as np


def search(start, largest, measure):
    """Return (best P, {P: seconds}, (θ0, θ1, θ2) or None). measure(P): mean seconds of some steps with P partitions.

    Owners hold whole partitions, so the true t(P) is not smooth. Therefore the lowest point of the curve is measured,
    too, and the fastest of all measured P is returned.
    """
    samples, tried, theta = {}, min(start, largest), None
    while tried:
        samples[tried] = measure(tried)
        tried = following(samples, largest)
    if len(samples) >= 3:
        theta = fit(samples)
        counts = np.arange(min(samples), max(samples) + 1)
        lowest = int(counts[np.argmin(theta[0] + theta[1] / counts + theta[2] * counts)])
        if lowest not in samples:
            samples[lowest] = measure(lowest)
    return min(sorted(samples), key=samples.get), samples, theta


def following(samples, largest):
    """Return the next P to try, or None. samples: {P: seconds}, in the order of their measurement."""
    start, tried = next(iter(samples)), sorted(samples)
    # double the largest P, while the last doubling paid; then halve the smallest, while the last halving paid
    if 2 * tried[-1] <= largest and (tried[-1] == start or samples[tried[-1]] < samples[tried[-2]]):
        return 2 * tried[-1]
    if tried[0] > 1 and (tried[0] == start or samples[tried[0]] < samples[tried[1]]):
        return tried[0] // 2
    if len(tried) >= 3:
        return None
    # a curve needs three samples: try a P between the two, or beside them
    more = round((tried[0] * tried[-1]) ** 0.5), 2 * tried[-1], tried[-1] + 1, tried[0] - 1
    return next((p for p in more if p not in samples and 1 <= p <= largest), None)


def fit(samples):
    """Return the (θ0, θ1, θ2) with the least squared error for {P: seconds}, where θ1 and θ2 are not negative."""
    counts, seconds = np.array(list(samples), float), np.array(list(samples.values()))
    columns, found = np.stack([np.ones_like(counts), 1 / counts, counts], axis=1), []
    for free in ([0, 1, 2], [0, 1], [0, 2], [0]):  # first all θ are free; then θ2 is 0, or θ1, or both
        theta, scale = np.zeros(3), columns[:, free].max(axis=0)  # scaled columns have smaller rounding errors
        theta[free] = np.linalg.lstsq(columns[:, free] / scale, seconds, rcond=None)[0] / scale
        if min(theta[1:]) >= 0:
            found.append((((columns @ theta - seconds) ** 2).sum(), theta.tolist()))
    return tuple(min(found)[1])


def main():
    """Search on a curve whose lowest point is at P = 11."""
    best, samples, theta = search(8, 1000, lambda partitions: 0.100 + 0.240 / partitions + 0.002 * partitions)
    for partitions, seconds in samples.items():
        print(f"P = {partitions:3}  {1e3 * seconds:.1f} ms a step")
    print(f"t(P) = {theta[0]:.3f} + {theta[1]:.3f} / P + {theta[2]:.4f} P; best: P = {best}")


if __name__ == "__main__":
    main()
