"""The names that people import, as they import them: they begin the reference, and are found before any other."""

from importlib import import_module

PACKAGES = "refimpl", "refimpl.torch", "refimpl.jax"
FIRST = "train", "Options", "Variable", "Result"
"""What most people come for; the others stand behind, as their package lists them."""


def origin(known, name: str):
    """Return what autoapi read about a name, from the module that defines it."""
    while name not in known or "original_path" in known[name].obj:
        name = known[name].obj["original_path"] if name in known else loaded_late(known, *name.rsplit(".", 1))
    return known[name]


def loaded_late(known, package: str, name: str) -> str:
    """Return the full name of what a package loads when it is asked for. A framework need not be installed for it."""
    if package == "refimpl":
        return f"{import_module(package)._HOME[name]}.{name}"
    (found,) = {other for other in known if other.startswith(f"{package}.") and other.endswith(f".{name}")
                and "original_path" not in known[other].obj}
    return found


def handed_on(page) -> list:
    """Return what a package hands on, the most wanted first."""
    names = page.all or import_module(page.id).__all__
    wanted = sorted(names, key=lambda name: FIRST.index(name) if name in FIRST else len(FIRST))
    return [origin(page.app.env.autoapi_all_objects, f"{page.id}.{name}") for name in wanted]


def no_source(app, module: str, name: str) -> str | None:
    """Keep the one link between a definition and its source: with the module that defines it, not who hands it on."""
    return module if module in PACKAGES else None


def prepare(templates):
    templates.filters["handed_on"] = handed_on
    templates.globals["public"] = PACKAGES


def setup(app):
    app.config.autoapi_prepare_jinja_env = prepare
    app.connect("viewcode-follow-imported", no_source, priority=400)  # before autoapi's
    return {"parallel_read_safe": True, "parallel_write_safe": True}
