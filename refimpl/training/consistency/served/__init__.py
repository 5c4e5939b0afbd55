"""Training without barriers: every rank is an owner and a worker, and acts when a message (a letter) arrives.

    without_barriers   all ranks and their messages
    serving            what a rank does with a message, and the order in which its owner handles pulls and pushes
    owner, worker      the two parts of a rank
    mail               the contents of messages
    flight             a rank's part of a checkpoint
    record             event logs, and a run that is read back with them
    replay             a training repeated by its event logs

``refimpl.plain.without_barriers.consistencies`` has the classes that decide when an owner answers a pull,
and what it does with a push.
"""
