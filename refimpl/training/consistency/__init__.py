"""How old the values may be that a worker computes with, named by the plan.

    synchronous   all ranks wait for each other in each step: step/ has its exchanges
    served/       owners that serve without barriers, and their record
    replicas/     replicas that their ranks train by themselves, and that meet now and then
    run           each of these from its beginning to its end
    check         what is refused
"""

from refimpl.plain.consistencies import CONSISTENCIES as SERVED, DECENTRALISED

CONSISTENCIES = (*SERVED, *DECENTRALISED)
"""What a plan may name, each perhaps followed by a number."""
