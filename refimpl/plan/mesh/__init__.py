"""Data- and model-parallel layers: the balance equations of Das et al., exact volumes, and the mesh that sends least.

balance.py has their equations, volumes.py what each node sends exactly, choose.py the mode of each layer, mesh.py the
bytes of a DATA x MODEL mesh as it is run here, crossing.py the batch at which it pays, auto.py the choice of K, and
schedule.py their synchronous step on one network. Pure functions of layers; nothing here communicates.
"""
