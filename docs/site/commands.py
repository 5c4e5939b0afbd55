"""The whole command line in Markdown, made of its parsers."""

import argparse
import re

from refimpl.cli import parser_of


def commands(parser: argparse.ArgumentParser, name: str = "", level: int = 2) -> list[str]:
    """Return the lines that describe a parser's commands, and theirs."""
    lines = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for word, command in action.choices.items():
                lines += [f"{'#' * level} {name}{word}", "", f"{command.description or ''}", ""]
                first, second, *others = command._action_groups  # argparse's own two: arguments, options
                lines += table("", first._group_actions + second._group_actions)
                lines += [line for group in others for line in table(group.title, group._group_actions)]
                lines += commands(command, f"{name}{word} ", level + 1)
    return lines


def table(title: str, actions) -> list[str]:
    """Return the table of some options under a title, or [] if there are none."""
    rows = [f"| {written(action)} | {cell(action.help or '')} |" for action in actions
            if not isinstance(action, argparse._HelpAction | argparse._SubParsersAction)]
    return [*([f"*{title}*", ""] if title else []), "| option | meaning |", "| --- | --- |", *rows, ""] if rows else []


def written(action) -> str:
    """Return an option as it is given: its names and its value."""
    values = ([action.metavar] if action.metavar else [] if action.nargs == 0 else
              [str(choice) for choice in action.choices or ()] or [action.dest.upper()])
    return " ".join([*(f"`{word}`" for word in action.option_strings), " \\| ".join(f"`{value}`" for value in values)])


def cell(text: str) -> str:
    """Return a help text for a cell of a table, options in it as code."""
    return re.sub(r"(?<!\w)--[a-z][\w-]*", r"`\g<0>`", " ".join(text.replace("%%", "%").replace("|", "\\|").split()))


def markdown() -> str:
    """Return the page's text."""
    return "\n".join(commands(parser_of()))
