"""What the suite found, for people and programs: JSON, one HTML page; ``show`` prints it, best with rich."""

from refimpl.conformance.report.expected import ExpectedFailures, read_expected
from refimpl.conformance.report.html import html_page
from refimpl.conformance.report.plain import lines, plain, unexpected


def show(outcome, expected: ExpectedFailures = ExpectedFailures(), verbose: bool = False):
    """Print an outcome: with rich where it is installed, else as plain lines."""
    try:
        from refimpl.conformance.report.terminal import print_outcome
    except ImportError:
        print("\n".join(lines(outcome, expected, verbose)))
    else:
        print_outcome(outcome, expected, verbose)


__all__ = ["ExpectedFailures", "html_page", "plain", "read_expected", "show", "unexpected"]
