"""Errors of JAX and Python in a user's loss, as explanations with a remedy."""

from contextlib import contextmanager

import jax

from models.frameworks.place import line_of
from refimpl.jax.rows import NotedRows, PulledRows


@contextmanager
def explained(remedy: str, *files):
    """A context that turns errors of JAX and Python from a loss into ValueErrors. Local.

    remedy: of a table that is used otherwise.  files: modules whose lines are not the user's own.
    """
    try:
        yield
    except (jax.errors.JAXTypeError, jax.errors.JAXIndexError) as problem:
        raise ValueError("the loss cannot be compiled (jax.jit), because it branches on values, at "
                         f"{line_of(problem, jax, *files)}: choose by jnp.where or jax.lax.cond, and compute with jnp "
                         "in place of np") from problem
    except (TypeError, AttributeError) as problem:
        if not any(kind.__name__ in str(problem) for kind in (PulledRows, NotedRows)):
            raise
        raise ValueError("a table is used otherwise than by params[NAME][ids], at "
                         f"{line_of(problem, jax, *files)}: a rank has only the rows that it looks up. "
                         f"{remedy}") from problem
