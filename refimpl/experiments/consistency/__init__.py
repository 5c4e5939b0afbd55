"""Training without barriers, measured: throughput, staleness, bytes and loss of each consistency, with a straggler.

    settings  what is trained                                              once      one training, and what it left
    job       what each rank runs                                          figures   numbers that people compare
    study     the experiment, from cells to tables and pictures            report    its report
"""
