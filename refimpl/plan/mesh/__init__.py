"""Ranks as a mesh, data-parallel x model-parallel: who is in which group, what is cut, and what that costs.

    mesh.py      who is in which group                 cut.py          what a mesh cuts, and what is refused of it
    activations  the exact bytes of a step's activations, for the ledger
    balance.py   the equations of Das et al.           volumes.py      beside them what each node sends exactly
    choose.py    the mode of each layer                sent.py         the bytes of a DATA x MODEL mesh
    crossing.py  the batch at which it pays            auto.py         the choice of K
    schedule.py  Das et al.'s synchronous step on one network

Pure functions of layers and variables; nothing here communicates.
"""
