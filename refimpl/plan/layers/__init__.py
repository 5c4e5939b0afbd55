"""What layers cost data-parallel, model-parallel and in groups, and the mesh that suits them.

    balance.py   the equations of Das et al.           volumes.py      beside them what each node sends exactly
    choose.py    the mode of each layer                sent.py         the bytes of a DATA x MODEL mesh
    crossing.py  the batch at which it pays            auto.py         the choice of K
    schedule.py  Das et al.'s synchronous step on one network

Pure functions of layers and variables; nothing here communicates.
"""
