"""Experiments: the emulated cluster, benchmarks, comparisons, and the papers' experiments.

    job        starts a measurement on ranks, here or on the emulated cluster, and returns rank 0's result
    cluster/   the emulated cluster        cells/   trainings on it as data, their runner, and the reports
    replay     computation that sleeps     bench/   refimpl beside other software, in turns

Every other package is an experiment. Its ``__init__`` says what is measured, a ``study`` starts jobs and returns a part
of the report, and ``ranks`` is the work of each rank. The other modules count and measure for lessons.
"""
