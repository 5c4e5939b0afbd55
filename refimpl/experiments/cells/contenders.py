"""What the experiments hold against each other: names of trainings, each with its options of the trainer."""

ARCHITECTURES = {
    "allreduce": {"architecture": "allreduce", "local_aggregation": False},
    "naive ps": {"architecture": "ps", "partitions": 1, "local_aggregation": False},  # and a plan of its own
    "optimised ps": {"architecture": "ps", "scheme": "interleaved"},
    "hybrid": {"architecture": "hybrid", "scheme": "interleaved"},
    "auto": {"architecture": "auto", "scheme": "interleaved"},
}
"""The paper's: Horovod (rows by allgather, nothing merged on the machine), TensorFlow's parameter server (whole
variables), and Parallax. Interleaved: Zipf's first rows have many owners."""

_SERVED = {"clip_norm": None, "architecture": "ps", "local_aggregation": False}
CONSISTENCIES = {
    **{name: {**_SERVED, "consistency": name}
       for name in ("synchronous", "backup:1", "bounded:2", "softsync:2", "asynchronous")},
    "dc-asgd": {**_SERVED, "consistency": "asynchronous", "correction": "dc-asgd"},
}
"""All with a parameter server, without local aggregation or clipping."""

CONTENDERS = {**ARCHITECTURES, **CONSISTENCIES}
