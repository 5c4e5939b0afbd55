"""Support vector machines whose samples are divided among the ranks. The plain version: ``refimpl.plain.svm``.

named      sets of samples by name
storage    dense samples, and CSR
cache      the most recently used kernel rows
solver     sequential minimal optimisation, with elimination and reconstruction
blocks     the same with many pairs in a round
traffic    the exchanges between ranks, counted
classes    two or more classes, with one machine for each pair
files      LIBSVM's text format, and trained machines
"""
