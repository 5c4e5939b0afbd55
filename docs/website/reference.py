"""The reference: a page for every module, from its docstrings, with its source beneath."""

from html import escape

from docs.website import docstring
from docs.website.code import listing
from docs.website.links import PACKAGES, page_url, relative
from docs.website.modules import Entry, Module
from docs.website.names import Names
from docs.website.pages import Page
from docs.website.prose import Heading, self_link

ABOUT = {
    "refimpl": "The reference: schedules, server, plan, training, conformance, experiments, command line.",
    "models": "Models on one device, which know nothing of ranks.",
    "kernels": "Array functions: a plain definition beside each fast version.",
    "tests": "What is held to be true, and the checks of the checkers.",
}
INDEX = ("Reference", "reference/index.html")


def reference_pages(modules: dict[str, Module]) -> list[Page]:
    """Return the index and a page for each module."""
    names = Names(modules)
    return [_index(modules), *(_Writer(module, modules, names).page() for module in modules.values())]


def _index(modules: dict[str, Module]) -> Page:
    """Return the page that leads to all modules."""
    url, parts, headings = INDEX[1], [], []
    for package in PACKAGES:
        headings.append(Heading(2, package, package))
        rows = _table([module for module in modules.values() if module.parent == package], url)
        where = relative(address(modules[package]), url)
        parts.append(f'<h2 id="{package}"><a href="{where}"><code>{package}</code></a></h2>'
                     f"<p>{ABOUT[package]}</p>{rows}")
    intro = ("<h1>Reference</h1><p>Every module, from its docstrings, with its source beneath: files are short, and "
             "meant to be read. Who must call a function is said beside its name: <b>Collective</b> ones are called "
             "by all ranks concerned, in the same order, <b>Local</b> ones by any.</p>")
    return Page(url, "Reference", intro + "".join(parts), "Reference", headings=headings, is_reading=False,
                description="Every module from its docstrings, with its source.")


def address(module: Module) -> str:
    """Return the address of a module's page."""
    return page_url(module.name.replace(".", "/"), is_directory=True)


def _table(members: list[Module], url: str) -> str:
    """Return modules, linked from the page at ``url``, with what each is for."""
    rows = "".join(
        f'<dt><a href="{relative(address(module), url)}"><code>{module.name.rpartition(".")[2]}</code></a></dt>'
        f"<dd>{docstring.one_line(module.summary)}</dd>" for module in members)
    return f'<dl class="modules">{rows}</dl>' if rows else ""


class _Writer:
    """Writes the page of one module."""

    def __init__(self, module: Module, modules: dict[str, Module], names: Names):
        self.module, self.modules, self.names = module, modules, names
        self.url = address(module)
        self.headings: list[Heading] = []
        self.road = docstring.road(module.docstring) if "All " in module.docstring else ""

    def page(self) -> Page:
        module = self.module
        parts = [f"<h1><code>{module.name}</code></h1>", docstring.render(module.docstring, (), self._link)]
        if module.is_package:
            parts += [self._members(), self._handed_on()]
        parts += [self._entry(entry) for entry in module.entries]
        if module.source:
            self.headings.append(Heading(2, "source", "Source"))
            code = listing(module.source, module.path, self._module_link)
            parts.append(f'<h2 id="source">Source {self_link("source")}</h2><p class="file">{module.path}</p>{code}')
        return Page(self.url, module.name, "\n".join(parts), "Reference", "module", module.summary, self.headings,
                    self._trail(), *self._beside(), is_reading=False)

    def _link(self, name: str, owner: str = "") -> str | None:
        found = self.names.find(name, self.module, owner)
        return relative(found, self.url) if found else None

    def _module_link(self, name: str) -> str | None:
        module = self.modules.get(name)
        return relative(address(module), self.url) if module else None

    def _trail(self) -> list[tuple[str, str]]:
        above, name = [], self.module.parent
        while name:
            above.insert(0, (name.rpartition(".")[2], address(self.modules[name])))
            name = name.rpartition(".")[0]
        return [INDEX, *above]

    def _beside(self) -> tuple[list[tuple[str, str]], str]:
        package = self.module.name if self.module.is_package else self.module.parent
        members = [module for module in self.modules.values() if module.parent == package]
        return [(module.name.rpartition(".")[2], address(module)) for module in members], package

    def _members(self) -> str:
        members = [module for module in self.modules.values() if module.parent == self.module.name]
        if not members:
            return ""
        self.headings.append(Heading(2, "modules", "Modules"))
        return f'<h2 id="modules">Modules {self_link("modules")}</h2>{_table(members, self.url)}'

    def _handed_on(self) -> str:
        homes = {name: self.names.home(home) for name, home in self.module.handed_on.items()}
        shown = sorted((name, url) for name, url in homes.items() if url and not name.startswith("_"))
        if not shown or self.module.name.startswith("tests"):
            return ""
        self.headings.append(Heading(2, "public-names", "Public names"))
        links = ", ".join(f'<a href="{relative(url, self.url)}"><code>{name}</code></a>' for name, url in shown)
        return (f'<h2 id="public-names">Public names {self_link("public-names")}</h2>'
                f"<p>Handed on, to be imported from here: {links}.</p>")

    def _entry(self, entry: Entry, level: int = 2) -> str:
        self.headings.append(Heading(level, entry.name, entry.name.rpartition(".")[2]))
        owner = entry.name if entry.kind == "class" else entry.name.rpartition(".")[0]
        own = entry.parameters - {member.name.rpartition(".")[2] for member in entry.members}
        body = docstring.render(entry.docstring, entry.parameters,
                                lambda name: None if name in own else self._link(name, owner))
        road = docstring.road(entry.docstring) or (self.road if entry.kind in ("function", "method") else "")
        badge = f'<span class="road {road.lower()}">{road}</span>' if road else ""
        members = "".join(self._entry(member, 3) for member in entry.members if member.docstring)
        return (f'<section class="entry {entry.kind}"><h{level} id="{entry.name}">{_signature(entry)}{badge}'
                f'{self_link(entry.name)}</h{level}>'
                f'<p class="where">{entry.kind} · <a href="#L-{entry.line}">source</a></p>{body}{members}</section>')


def _signature(entry: Entry) -> str:
    """Return the signature with its name picked out."""
    name = entry.name.rpartition(".")[2]
    rest = escape(entry.signature.removeprefix(name), quote=False)
    return f'<code class="signature"><b>{name}</b>{rest}</code>'
