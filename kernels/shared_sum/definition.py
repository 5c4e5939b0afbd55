"""Plain array code for sums of several arrays in a given order: the oracle. Never optimised."""


def sum_in_order(inputs, sums, outputs, start, stop):
    """Add up elements [start, stop) of arrays in a given order, and write the outputs. Local.

    inputs: k arrays, registers 0 to k - 1.  sums: (into, other) pairs, in order: register into += register other.
    outputs: (register, array) pairs; an array may be one of the inputs. All: (n,), one dtype. Only outputs are written.
    """
    registers = [array[start:stop].copy() for array in inputs]
    for into, other in sums:
        registers[into] = registers[into] + registers[other]
    for register, array in outputs:
        array[start:stop] = registers[register]
