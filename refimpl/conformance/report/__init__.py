"""What the suite found, for people and programs: JSON, one HTML page; ``terminal`` prints it, and alone needs rich."""

from refimpl.conformance.report.expected import Expected, read_expected
from refimpl.conformance.report.html import html_page
from refimpl.conformance.report.plain import plain, unexpected

__all__ = ["Expected", "html_page", "plain", "read_expected", "unexpected"]
