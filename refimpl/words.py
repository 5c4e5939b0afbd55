"""Nouns with their numbers, for messages and reports."""


def counted(number: int, noun: str) -> str:
    """Return "1 rank" or "4 ranks". Local."""
    return f"{number} {noun}{'es' if noun.endswith('ch') else 's'}" if number != 1 else f"1 {noun}"


def ranks_named(ranks, between: str = ", ") -> str:
    """Return "rank 1" or "ranks 0, 2". Local."""
    ranks = list(ranks)
    return f"rank{'s' * (len(ranks) > 1)} {between.join(map(str, ranks))}"
