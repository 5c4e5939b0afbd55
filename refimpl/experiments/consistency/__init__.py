"""Training without barriers, measured: throughput, staleness, bytes and loss of each consistency, with a straggler.

    settings  what is trained                   figures   numbers that people compare
    job       what each rank runs               report    the experiment, from cells to tables, pictures and report
    race      ``bench consistency``: pairs of whole trainings, in turns
"""
