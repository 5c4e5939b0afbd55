"""The decisions of an implementation: the right one, and the wrong ones that people write.

A machine computes the numbers of a case, decision by decision (``aggregation``, ``training``, ``loss``). A deviation
replaces one decision by a wrong one. A machine with a deviation predicts every number of an implementation that has
this mistake.
"""
