"""How many partitions P? Measure a few steps at a few P, lay a curve through the samples, take its lowest point.

    t(P) = θ0 + θ1 / P + θ2 P      θ1 / P: what more partitions share or overlap.  θ2 P: what each of them costs.

Start at the number of machines; double P while it gets faster, then halve from the smallest tried until it gets slower.
Source: Parallax, section 4 (partitioning).

    python -m refimpl.plain.search
"""

import numpy as np


def search(start, largest, measure):
    """Return (best P, {P: seconds}, (θ0, θ1, θ2) or None). measure(P): mean seconds of a few steps with P partitions."""
    samples = {start: measure(start)}
    for following in (lambda: 2 * max(samples), lambda: min(samples) // 2):
        before = max(samples) if following() > start else min(samples)
        while 1 <= following() <= largest:
            tried = following()
            samples[tried] = measure(tried)
            if samples[tried] >= samples[before]:
                break
            before = tried
    if len(samples) < 3:  # too few for three parameters
        return min(samples, key=samples.get), samples, None
    theta = fit(samples)
    counts = np.arange(min(samples), max(samples) + 1)
    said = int(counts[np.argmin(curve(theta, counts))])
    if said not in samples:  # owners hold whole partitions, so t(P) is no smooth curve: what it says is measured, too
        samples[said] = measure(said)
    return min(samples, key=samples.get), samples, theta


def fit(samples):
    """Return (θ0, θ1, θ2) by least squares through {P: seconds}."""
    counts = np.array(list(samples), float)
    columns = np.stack([np.ones_like(counts), 1 / counts, counts], axis=1)
    return tuple(np.linalg.lstsq(columns, np.array(list(samples.values())), rcond=None)[0])


def curve(theta, counts):
    """Return t(P)."""
    return theta[0] + theta[1] / counts + theta[2] * counts


def main():
    def measure(partitions):
        return 0.100 + 0.240 / partitions + 0.002 * partitions

    best, samples, theta = search(8, 1000, measure)
    for partitions, seconds in samples.items():
        print(f"P = {partitions:3}  {1e3 * seconds:.1f} ms a step")
    print(f"t(P) = {theta[0]:.3f} + {theta[1]:.3f} / P + {theta[2]:.4f} P; best: P = {best}")


if __name__ == "__main__":
    main()
