"""The parts that all experiments share. A cell is one training on the emulated cluster, with a file of its result.

    cell      a training as data           run, ranks             run cells in jobs, one for each cluster
    report    tables and sentences         proportions            the emulated cluster beside the paper's
"""
