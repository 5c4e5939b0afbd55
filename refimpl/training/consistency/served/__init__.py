"""Training without barriers: every rank is an owner and a worker, and goes on when a letter lets it.

    without_barriers   the ranks, by letters between them
    serving            what a rank does with a letter                  mail       what letters say
    owner, worker      the two that it is                              orders     in which order an owner deals with what came
    flight             what a checkpoint holds of them
    record             the order in which owners dealt with workers    recorded_run, replay    a run once more, by it

When an owner answers, and what becomes of a push: a small class each in ``refimpl.plain.consistencies``.
"""
