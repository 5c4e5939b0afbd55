"""A parser whose errors say what is wrong, and what to write instead. (argparse prints all options first.)"""

import argparse
import difflib
import re
import sys
from itertools import takewhile

MEANT = {"--lr": "--learning-rate", "--epochs": "--steps"}
"""An option's name in other programs -> its name here, if the two names are not similar."""


class Parser(argparse.ArgumentParser):
    """argparse's parser with other errors. hints: {unknown option: its message, where {} stands for its value}."""

    def __init__(self, *arguments, **named):
        super().__init__(*arguments, **named)
        self.hints: dict[str, str] = {}
        self.given: list[str] = []

    def parse_known_args(self, args=None, namespace=None):
        """Parse. Exit with status 2 for unknown options: here their command is known."""
        self.given = list(sys.argv[1:] if args is None else args)
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"there is no place for {' '.join(unknown)}")
        return found, unknown

    def error(self, message: str):
        """Print what is wrong on stderr, in two lines, and exit with status 2. An unknown option comes first."""
        sys.stderr.write(f"refimpl: error: {self._unknown() or message}\n{self.prog} --help lists the options\n")
        sys.exit(2)

    def _unknown(self) -> str | None:
        """Return the message for the first unknown option; None if all are known."""
        for option, value in self._options_given():
            if any(name.startswith(option) for name in self._option_string_actions):
                continue
            if self._subparsers is not None:
                return f"there is no option {option} before the command; options follow it"
            if option in self.hints:
                return f"there is no option {option}: {self.hints[option].format(value if value.isdecimal() else 'N')}"
            known = [name for name in self._option_string_actions if name != "--help"]
            return f"there is no option {option}{did_you_mean(MEANT.get(option, option), known)}"
        return None

    def _options_given(self):
        """Yield each option that was given to this parser, and the word after it."""
        if any(action.nargs == argparse.REMAINDER for action in self._actions):
            return  # the following options may be another program's
        given = list(takewhile(lambda word: word != "--", self.given))
        if self._subparsers is not None:
            given = list(takewhile(lambda word: word.startswith("-"), given))
        for word, following in zip(given, [*given[1:], ""]):
            if re.match("--?[a-zA-Z]", word):
                option, _, value = word.partition("=")
                yield option, value or following

    def _check_value(self, action, value):
        if action.choices is not None and value not in action.choices:
            raise argparse.ArgumentError(action, none_of(value, action.choices))


def none_of(text: str, known) -> str:
    """Return the message that a text is none of ``known``, with the nearest of them."""
    return f"{text!r} is none of {', '.join(map(str, known))}{did_you_mean(text, known)}"


def did_you_mean(text, known) -> str:
    """Return a question whether the nearest of ``known`` is meant; "" if none is near."""
    near = [each for each in known if text and each.startswith(text)] or difflib.get_close_matches(text, known, 1)
    return f"; did you mean {near[0]}?" if near else ""
