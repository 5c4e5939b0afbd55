"""The names that people import, as they import them: they begin the reference, and are found before any other."""

from importlib import import_module

PACKAGES = "refimpl", "refimpl.torch", "refimpl.jax"
FIRST = "train", "Options", "Variable", "Result"
"""What most people come for; the others stand behind, as their package lists them."""


def origin(known, name: str):
    """Return what autoapi read about a name, from the module that defines it; ``_HOME``: packages that load late."""
    while name not in known or "original_path" in known[name].obj:
        package, _, last = name.rpartition(".")
        name = known[name].obj["original_path"] if name in known else f"{import_module(package)._HOME[last]}.{last}"
    return known[name]


def handed_on(page) -> list:
    """Return what a package hands on, the most wanted first."""
    names = page.all or import_module(page.id).__all__
    wanted = sorted(names, key=lambda name: FIRST.index(name) if name in FIRST else len(FIRST))
    return [origin(page.app.env.autoapi_all_objects, f"{page.id}.{name}") for name in wanted]


def home(app, module: str, name: str) -> str | None:
    """Return the module whose source defines a name that refimpl loads late, for the link beside it."""
    known = app.env.autoapi_all_objects
    if module == "refimpl" and name in import_module(module).__all__:
        return origin(known, f"{module}.{name}").id.removesuffix(f".{name}")


def prepare(templates):
    templates.filters["handed_on"] = handed_on
    templates.globals["public"] = PACKAGES


def setup(app):
    app.config.autoapi_prepare_jinja_env = prepare
    app.connect("viewcode-follow-imported", home)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
