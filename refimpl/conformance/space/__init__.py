"""The space of semantics: each decision of an implementation, the right way and the wrong ones that people write.

A machine computes a case's numbers decision by decision (``aggregation``, ``training``, ``loss``). A deviation takes
one decision otherwise; a machine with one, or with two, predicts every number that such an implementation gives.
"""
