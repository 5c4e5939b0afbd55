"""Vectors of LANES neighbouring elements in Numba kernels, for loops over few channels, which LLVM does not vectorise.

    store(out, place, load(array, place) + load(array, next))

Each lane computes what a loop over elements computes, so no bit changes. Arrays are flat and contiguous.
"""

import operator

from llvmlite import ir
from numba import config, types
from numba.extending import intrinsic, lower_builtin, models, register_model, type_callable

LANES = 2**62 if config.DISABLE_JIT else 8
"""Without compilation there are no vectors: no number of channels fills one."""


class Vector(types.Type):
    """LANES numbers of a dtype."""

    def __init__(self, dtype):
        super().__init__(f"Vector({dtype})")
        self.dtype = dtype


@register_model(Vector)
class _Model(models.PrimitiveModel):
    def __init__(self, manager, kind):
        super().__init__(manager, kind, ir.VectorType(manager.lookup(kind.dtype).get_value_type(), LANES))


def _address(context, builder, kind, array, at):
    """Return the address of the element ``at`` as a vector's, and the bytes of an element."""
    flat, vector = context.make_array(kind)(context, builder, array), context.get_value_type(Vector(kind.dtype))
    return builder.bitcast(builder.gep(flat.data, [at]), vector.as_pointer()), context.get_abi_sizeof(vector.element)


@intrinsic
def load(typingctx, array, at):
    """Return the elements from ``at`` on as a vector."""
    def generate(context, builder, signature, arguments):
        address, size = _address(context, builder, signature.args[0], *arguments)
        return builder.load(address, align=size)

    return Vector(array.dtype)(array, types.intp), generate


@intrinsic
def store(typingctx, array, at, vector):
    """Write a vector to the elements from ``at`` on. The result is None."""
    def generate(context, builder, signature, arguments):
        address, size = _address(context, builder, signature.args[0], *arguments[:2])
        builder.store(arguments[2], address, align=size)
        return context.get_dummy_value()

    return types.void(array, types.intp, vector), generate


@intrinsic
def wide(typingctx, vector):
    """Return a vector as float64."""
    double = Vector(types.float64)

    def generate(context, builder, signature, arguments):
        return arguments[0] if vector == double else builder.fpext(arguments[0], context.get_value_type(double))

    return double(vector), generate


@intrinsic
def where_positive(typingctx, condition, vector):
    """Return the vector where another one is above 0, and 0 elsewhere."""
    def generate(context, builder, signature, arguments):
        zero = ir.Constant(arguments[0].type, None)
        return builder.select(builder.fcmp_ordered(">", arguments[0], zero), arguments[1], zero)

    return vector(condition, vector), generate


def _lower(operation, instruction):
    @type_callable(operation)
    def _type(context):
        return lambda a, b: a if isinstance(a, Vector) and a == b else None

    @lower_builtin(operation, Vector, Vector)
    def _generate(context, builder, signature, arguments):
        return getattr(builder, instruction)(*arguments)


for _pair in ((operator.add, "fadd"), (operator.sub, "fsub"), (operator.mul, "fmul")):
    _lower(*_pair)


@type_callable(operator.neg)
def _type_of_negative(context):
    return lambda a: a if isinstance(a, Vector) else None


@lower_builtin(operator.neg, Vector)
def _negative(context, builder, signature, arguments):
    return builder.fneg(*arguments)
