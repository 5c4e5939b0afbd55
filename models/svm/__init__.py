"""Support vector machines, trained on samples that are spread over ranks. The plain version: ``refimpl.plain.svm``.

    samples    a rank's samples, the active ones first
    cache      the most recently used kernel rows
    solver     sequential minimal optimisation, with elimination and reconstruction
    classes    two or more classes, with one machine for each pair
    files      LIBSVM's text format, and trained machines
"""
