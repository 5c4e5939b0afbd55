"""What all experiments share: a cell is one training, run on the emulated cluster, its result a file; findings, report.

    cell      what is trained              run, job               cells run in jobs, one for each cluster
    report    tables and sentences         network, proportions   the emulated cluster; the paper's in its time
"""
