"""Training without barriers: every rank is an owner and a worker, and goes on when a letter lets it.

    without_barriers   the ranks, by letters between them
    serving            what a rank does with a letter, and in which order its owner deals with what has come
    owner, worker      the two that it is
    mail               what letters say
    flight             what a checkpoint holds of a rank
    record             the order in which owners dealt with workers, and a run read back with it
    replay             a run once more, by its record

When an owner answers, and what becomes of a push: a small class each in ``refimpl.plain.consistencies``.
"""
