"""Hold an implementation's numbers against ours, and name the bug."""

HELP = "hold any implementation's numbers against ours, and name the bug"
REFUSALS = (ValueError, OSError)


def add(parser):
    parser.add_argument("action", choices=["run"])


def run(given: dict) -> int:
    raise ValueError("conformance is being built")
