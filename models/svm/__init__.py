"""Support vector machines, trained on samples that are dealt to ranks. Plainly: ``refimpl.plain.svm``.

    samples    a rank's samples, in an order in which the active ones come first
    cache      kernel rows, those used last
    solver     sequential minimal optimisation, with elimination and reconstruction
    classes    two classes or more, by one machine for each pair
    files      LIBSVM's text format, and trained machines
"""
