"""How old the values may be that a worker computes with, named by the plan. What each lets an owner do, one class a
consistency, stands in ``refimpl.plain.consistencies``.

    synchronous        all ranks wait for each other in each step      step/ has its exchanges
    update             what the optimizer does with a sum of gradients
    without_barriers   all others: every rank is an owner and a worker, and goes on when a letter lets it
    serving, owner, worker, mail, orders     its parts, none of which waits or knows how letters travel
    flight             what a checkpoint holds of them
    record, replay     the order in which owners dealt with workers; the training once more, by it
    decentralised      those without a server: how replicas meet that their ranks train by themselves
    replica, others, run_decentralised     its parts
    check              what is refused
"""

from refimpl.plain.consistencies import CONSISTENCIES as SERVED, DECENTRALISED

CONSISTENCIES = (*SERVED, *DECENTRALISED)
"""What a plan may name, each perhaps followed by a number."""
