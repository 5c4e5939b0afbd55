"""Code that the interfaces to other frameworks, ``refimpl.torch`` and ``refimpl.jax``, share."""
