"""Names, ranks and long lists in words."""


def names_in_words(names) -> str:
    """Return "a", "a and b", "a, b and c". Local."""
    *first, last = list(names)
    return f"{', '.join(first)} and {last}" if first else str(last)


def ranks_in_words(ranks) -> str:
    """Return "rank 2", "ranks 0 and 2". Local."""
    ranks = list(ranks)
    return f"rank{'s' if len(ranks) > 1 else ''} {names_in_words(map(str, ranks))}"


def ordinal(number: int) -> str:
    """Return "first", "second", "third", "4th". number: from 1. Local."""
    return {1: "first", 2: "second", 3: "third"}.get(number, f"{number}th")


def some(items) -> str:
    """Return the first four items and the number of the others: "a, b, c, d and 3 more". Local."""
    return ", ".join(map(str, items[:4])) + (f" and {len(items) - 4} more" if len(items) > 4 else "")
