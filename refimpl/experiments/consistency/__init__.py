"""Measure training without barriers: throughput, staleness, bytes and loss of each consistency, with a straggler.

    settings  the trainings                     figures   numbers for comparison
    job       the work of each rank             report    the experiment, from cells to tables, pictures and report
    race      ``bench consistency``: pairs of whole trainings, in turns
"""
