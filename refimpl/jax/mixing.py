"""Find whether an optimizer uses the gradients of several variables together, as for a norm of all of them."""


def mixes(jaxpr, count: int) -> bool:
    """Return whether a result of a traced function depends on two of its first ``count`` arguments. Local."""
    given = [frozenset([i] if i < count else []) for i in range(len(jaxpr.invars))]
    return any(len(found) > 1 for found in _sources(jaxpr, given))


def _sources(jaxpr, given) -> list[frozenset]:
    """Return the arguments that each result depends on. given: what the function's own arguments depend on."""
    known = dict(zip(jaxpr.invars, given))

    def of(atom):
        return frozenset() if hasattr(atom, "val") else known.get(atom, frozenset())  # a literal depends on nothing

    for equation in jaxpr.eqns:
        inputs, inner = [of(atom) for atom in equation.invars], equation.params.get("jaxpr")
        if equation.primitive.name in ("jit", "pjit"):
            found = _sources(inner.jaxpr, inputs)
        else:
            found = [frozenset().union(*inputs)] * len(equation.outvars)
        known |= dict(zip(equation.outvars, found))
    return [of(atom) for atom in jaxpr.outvars]
