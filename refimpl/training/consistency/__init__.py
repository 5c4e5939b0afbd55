"""The consistencies: how old the values may be with which a worker computes. The plan names one.

synchronous   all ranks wait for each other in each step; step/ has the exchanges
served/       owners that answer without barriers, and their event log
replicas/     each rank trains a replica, and they are averaged from time to time
run           a training of the last two kinds from beginning to end
check         refuses options that do not go with them
"""

from refimpl.plain.without_barriers.consistencies import CONSISTENCIES as SERVED, DECENTRALISED

CONSISTENCIES = (*SERVED, *DECENTRALISED)
"""The names that a plan may use, some of them followed by a number."""
