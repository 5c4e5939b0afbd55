"""conformance export, check and regenerate: golden traces of whole trainings, as files."""

import json
from pathlib import Path

from refimpl.conformance.traces.golden import NAMES


def add(action):
    """Add the actions to those of ``conformance``: action(name, help=...) returns the parser of one."""
    export = action("export", help="write a golden trace, or what an implementation begins from, as files")
    export.add_argument("trace", help=" or ".join(NAMES))
    export.add_argument("--stage", metavar="STAGE", help="only what one that joins there begins from: model (inputs), "
                        "aggregate (local gradients) or update (aggregated gradients); default: everything")
    export.add_argument("--precision", metavar="P", help="float32 (default: canonical bits) or float64 (the truth)")
    export.add_argument("--out", metavar="PATH", help="write PATH.json and PATH.safetensors (default: its name)")
    check = action("check", help="hold another implementation's trace against ours")
    check.add_argument("trace", metavar="THEIR_TRACE", help="the manifest (.json); its .safetensors lies beside it")
    check.add_argument("--verbose", action="store_true", help="list the stages that passed too")
    check.add_argument("--html", metavar="FILE", help="write the report as one page")
    check.add_argument("--json", action="store_true", help="print one JSON object")
    regenerate = action("regenerate", help="train again and write the golden traces anew")
    regenerate.add_argument("traces", nargs="*", metavar="TRACE", help=f"{', '.join(NAMES)} (default: all)")
    regenerate.add_argument("--out", metavar="DIR", help="write them there (default: where the package keeps them)")


def _export(given) -> int:
    from refimpl.conformance.traces.export import export_trace

    name = given["trace"]
    files = export_trace(name, given.get("out", name), given.get("stage"), given.get("precision", "float32"))
    for file in files:
        print(file)
    return 0


def _check(given) -> int:
    """Status 0: nothing that was handed in differs; 1 otherwise."""
    from refimpl.conformance.report import Expected, html_page, plain, show
    from refimpl.conformance.traces.check import check_trace

    outcome = check_trace(given["trace"])
    if given.get("json"):
        print(json.dumps({"format": 1, "outcomes": [plain(outcome)]}))
    else:
        show(outcome, Expected(), given.get("verbose", False))
    if "html" in given:
        Path(given["html"]).write_text(html_page([outcome]))
    return int(bool(outcome.failed))


def _regenerate(given) -> int:
    from refimpl.conformance.traces.golden import FOLDER
    from refimpl.conformance.traces.regenerate import regenerate

    for file in regenerate(given.get("traces") or NAMES, given.get("out", FOLDER)):
        print(file)
    return 0


ACTIONS = {"export": _export, "check": _check, "regenerate": _regenerate}
