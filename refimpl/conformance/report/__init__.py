"""What the suite found, for people and programs: a table in the terminal, JSON, one HTML page."""

from refimpl.conformance.report.expected import Expected, read_expected
from refimpl.conformance.report.html import html_page
from refimpl.conformance.report.plain import plain
from refimpl.conformance.report.terminal import print_mutants, print_outcome

__all__ = ["Expected", "html_page", "plain", "print_mutants", "print_outcome", "read_expected"]
