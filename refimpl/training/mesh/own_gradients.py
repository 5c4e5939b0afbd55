"""Gradients of what is not cut leave as they become ready: the last microbatch's complete each sum."""


class OwnGradients:
    """The gradients of one of this rank's microbatches, of what is not cut, as they become ready. Local to make.

    mesh: the ``MeshStep``. Each exchange is given its variables' when all of them are there; of the rank's last
    microbatch it then begins.
    """

    def __init__(self, mesh, microbatch: int):
        self.mesh, self.microbatch, self.found, self.left = mesh, microbatch, {}, set(mesh.own_names)

    def ready(self, gradients):
        """Take gradients that are final. Collective over the ranks of their exchanges."""
        if self.mesh.first:
            self.mesh.first.ready(gradients, self.microbatch)
        self.found |= {name: gradient for name, gradient in gradients.items() if name not in self.found}
        for exchange in dict.fromkeys(self.mesh.exchange_of[name] for name in gradients if name in self.left):
            names = [v.name for v in exchange.variables]
            if self.found.keys() >= set(names):
                self._add({name: self.found[name] for name in names}, names, exchange)
        self.mesh.advance()

    def are_none(self):
        """The microbatch has no examples."""
        for exchange in dict.fromkeys(self.mesh.exchange_of[name] for name in self.mesh.own_names):
            self._add(None, [v.name for v in exchange.variables], exchange)

    def end(self, gradients):
        """Take what features_backward returned. Raises ValueError if it is not what was ready before."""
        for name, gradient in gradients.items():
            if self.found.get(name, gradient) is not gradient:
                raise ValueError(f"the gradient of {name!r} in microbatch {self.microbatch} was ready, then another "
                                 "one was returned: call ready with what is final only")
        self.ready(gradients)
        if self.mesh.first:
            self.mesh.first.end_of(self.microbatch)

    def _add(self, gradients, names, exchange):
        self.mesh.step.add_some(self.microbatch, gradients, names)
        self.left -= set(names)
        if self.microbatch == self.mesh.leaves[self.mesh.group.me][-1]:
            self.mesh.begin(exchange)
