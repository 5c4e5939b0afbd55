"""Where the documentation of a name is."""

from collections import defaultdict

from docs.website.links import page_url
from docs.website.modules import Module

STEPS = 5  # a name is handed on through so many packages at most


class Names:
    """All public names of the project."""

    def __init__(self, modules: dict[str, Module]):
        self.modules = modules
        self.entries = {module.name: {e.name for entry in module.entries for e in (entry, *entry.members)
                                      if e is entry or e.docstring} for module in modules.values()}
        self.homes = defaultdict(set)
        for name, entries in self.entries.items():
            for entry in entries:
                self.homes[entry].add(name)

    def find(self, name: str, module: Module, owner: str = "") -> str | None:
        """Return the address of what a docstring in ``module``, in its class ``owner``, calls ``name``; None: unknown.

        Looked for in the class, the module, its imports, its package, everywhere by full name, and everywhere by a
        name that only one module has and that is no plain word.
        """
        name = name.removesuffix("()")
        for local in (f"{owner}.{name}", name):
            if local in self.entries[module.name]:
                return self._address(module.name, local)
        if name in module.handed_on:
            return self.home(module.handed_on[name])
        for dotted in (name, f"{module.parent}.{name}", f"{module.name}.{name}", f"refimpl.{name}"):
            if found := self.home(dotted):
                return found
        homes = self.homes.get(name, ())
        return self._address(*homes, name) if len(homes) == 1 and _is_a_name(name) else None

    def home(self, dotted: str) -> str | None:
        """Return the address of package.module or package.module.name, wherever it is handed on from."""
        for _ in range(STEPS):
            if dotted in self.modules:
                return self._address(dotted)
            module, _, name = dotted.rpartition(".")
            if module in self.modules and name in self.entries[module]:
                return self._address(module, name)
            above, _, owner = module.rpartition(".")
            if above in self.modules and f"{owner}.{name}" in self.entries[above]:
                return self._address(above, f"{owner}.{name}")
            if module not in self.modules or name not in self.modules[module].handed_on:
                return None
            dotted = self.modules[module].handed_on[name]
        return None

    def _address(self, module: str, entry: str = "") -> str:
        page = page_url(module.replace(".", "/"), is_directory=True)
        return f"{page}#{entry}" if entry else page


def _is_a_name(text: str) -> bool:
    """Whether it looks like a name and not like a word of English."""
    return "_" in text or "." in text or text[:1].isupper()
