"""Tables on the terminal, by rich."""


def console(width: int = 120):
    """Return rich's console. If stdout is not a terminal, it is ``width`` characters wide."""
    from rich.console import Console

    found = Console()
    if not found.is_terminal:
        found.width = width
    return found


def table_of(title: str, headings, rows, words=(), whole=(), **looks):
    """Return rich's table of rows of texts. Local.

    words: headings of left-aligned columns; the others are numbers.  whole: of columns that are never wrapped.
    looks: other arguments of rich's Table.
    """
    from rich.table import Table

    found = Table(title=title, **looks)
    for heading in headings:
        found.add_column(heading, justify="left" if heading in words else "right", no_wrap=heading in whole)
    for row in rows:
        found.add_row(*row)
    return found
