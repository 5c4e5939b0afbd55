"""What doors to other frameworks, ``refimpl.torch`` and ``refimpl.jax``, have in common."""
