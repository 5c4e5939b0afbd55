"""Training without barriers, measured: throughput, staleness, bytes and loss of each consistency, with a straggler.

    cells     what is trained; each with its name, its result a file       once      one training, and what it left
    job       what each rank runs                                          figures   numbers that people compare
    study     the experiment, from cells to tables and pictures            report    the written comparison
"""
