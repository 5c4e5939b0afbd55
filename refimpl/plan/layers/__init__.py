"""The costs of layers that are data-parallel, model-parallel or in groups, and the mesh that suits them.

    balance.py   the equations of Das et al.           volumes.py   the exact bytes that each node sends
    choose.py    the mode of each layer                sent.py      the bytes of a DATA x MODEL mesh
    crossing.py  the batch size up to which it pays    auto.py      the choice of K
    schedule.py  Das et al.'s synchronous step on one network

These are functions of layers and variables; nothing here communicates.
"""
