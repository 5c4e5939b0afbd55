"""Compare an implementation's numbers with exact ones, and name the bug."""

import json
from pathlib import Path

from refimpl.cli.asked.values import file, nonempty, seconds, whole
from refimpl.conformance.traces.golden import NAMES

REFUSALS = (ValueError, OSError)


def add(parser):
    """Add the actions and their options."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")

    def action(name, help):
        return actions.add_parser(name, help=help, description=f"{help[0].upper()}{help[1:]}.",
                                  argument_default=parser.argument_default)

    run_ = action("run", help="run the cases on an adapter and judge its numbers")
    run_.add_argument("--target", type=nonempty, required=True, metavar="MODULE",
                      help="the adapter, a module on PYTHONPATH (see docs/conformance.md)")
    run_.add_argument("--ranks", type=whole(), nargs="+", metavar="N",
                      help="numbers of ranks, one after the other (default 4)")
    run_.add_argument("--launcher", choices=["mpi", "processes", "local"],
                      help="default: the adapter's LAUNCHER, or mpi")
    run_.add_argument("--only", metavar="TEXT", help="run the cases that have this in their name")
    run_.add_argument("--expected-failures", type=nonempty, metavar="FILE",
                      help="JSON of cases that are known to fail, and why")
    run_.add_argument("--timeout", type=seconds, metavar="S",
                      help="seconds after which a case counts as hanging (default 60)")
    run_.add_argument("--snippet", type=file, metavar="FILE",
                      help="write a program that calls the adapter on the smallest case of the first failure that has "
                      "no name, and prints what is wrong")
    action("manifest", help="explain every field and value of the manifest, and print an example")
    cases = action("cases", help="list the cases")
    cases.add_argument("--ranks", type=whole(), metavar="N", help="number of ranks (default 4)")
    export = action("export", help="write a golden trace, or the part that an implementation needs, as files")
    export.add_argument("trace", help=" or ".join(NAMES))
    export.add_argument("--stage", metavar="STAGE", help="write only what a computation needs that "
                        "begins at this stage: model (inputs), aggregate (local gradients) or update (aggregated "
                        "gradients); default: everything")
    export.add_argument("--precision", metavar="P", help="float32 (default; the bits of the reproducible order) or "
                        "float64 (close to the exact numbers)")
    export.add_argument("--out", type=nonempty, metavar="PATH",
                        help="write PATH.json and PATH.safetensors (default: its name)")
    check = action("check", help="compare another implementation's trace with ours")
    check.add_argument("trace", type=nonempty, metavar="THEIR_TRACE",
                       help="the manifest (.json); its .safetensors lies beside it")
    for each, judged in ((run_, "cases"), (check, "stages")):
        each.add_argument("--verbose", action="store_true", help=f"list the {judged} that passed too")
        each.add_argument("--html", type=file, metavar="FILE", help="write the report as one page")
        each.add_argument("--json", action="store_true", help="print one JSON object")
    _add_regenerate(action)


def _add_regenerate(action):
    regenerate = action("regenerate", help="train again and write the golden traces anew")
    regenerate.add_argument("traces", nargs="*", metavar="TRACE", help=f"{', '.join(NAMES)} (default: all)")
    regenerate.add_argument("--out", type=nonempty, metavar="DIR",
                            help="write them there (default: where the package keeps them)")


def run(given: dict) -> int:
    """Do the action; return its status."""
    actions = {"run": _run, "manifest": _manifest, "cases": _cases, "export": _export, "check": _check,
               "regenerate": _regenerate}
    return actions[given["action"]](given)


def _run(given) -> int:
    """Return status 0 if only cases failed that are expected to fail; 1 otherwise."""
    from refimpl.conformance.report import ExpectedFailures, read_expected, show, unexpected
    from refimpl.conformance.runner import run_target

    expected = read_expected(given["expected_failures"]) if "expected_failures" in given else ExpectedFailures()
    outcomes = []
    for ranks in given.get("ranks", [4]):
        outcomes.append(run_target(given["target"], ranks, launcher=given.get("launcher"), only=given.get("only", ""),
                                   timeout=given.get("timeout", 60.0)))
        if not given.get("json"):
            show(outcomes[-1], expected, given.get("verbose", False))
    _report(outcomes, expected, given)
    return int(any(unexpected(outcome, expected) for outcome in outcomes))


def _report(outcomes, expected, given):
    """Print the outcomes as JSON, write them as a page, write the first snippet: whichever the options ask for."""
    from refimpl.conformance.report import html_page, plain

    if given.get("json"):
        print(json.dumps({"format": 1, "outcomes": [plain(outcome, expected) for outcome in outcomes]}))
    if "html" in given:
        Path(given["html"]).write_text(html_page(outcomes, expected))
    if "snippet" in given:
        snippets = (d["snippet"] for outcome in outcomes for d in plain(outcome)["diagnoses"] if d["snippet"])
        Path(given["snippet"]).write_text(next(snippets, "# every failure has a name\n"))


def _manifest(given) -> int:
    from refimpl.conformance.semantics import Semantics, page

    print(page())
    print(json.dumps(Semantics(name="mine").to_json(), indent=2))
    return 0


def _cases(given) -> int:
    from refimpl.conformance.cases import all_cases
    from refimpl.conformance.kinds import KINDS

    for case in all_cases(given.get("ranks", 4)):
        print(f"{case.name:28}{KINDS[case.kind].stage:10}{', '.join(KINDS[case.kind].functions):30}{case.about}")
    return 0


def _export(given) -> int:
    from refimpl.conformance.traces.golden import export_trace

    name = given["trace"]
    print(*export_trace(name, given.get("out", name), given.get("stage"), given.get("precision", "float32")), sep="\n")
    return 0


def _check(given) -> int:
    """Return status 0 if nothing in the given trace differs; 1 otherwise."""
    from refimpl.conformance.report import ExpectedFailures, show
    from refimpl.conformance.traces.check import check_trace

    outcome = check_trace(given["trace"])
    if not given.get("json"):
        show(outcome, ExpectedFailures(), given.get("verbose", False))
    _report([outcome], ExpectedFailures(), given)
    return int(bool(outcome.failed))


def _regenerate(given) -> int:
    from refimpl.conformance.traces.golden import FOLDER
    from refimpl.conformance.traces.record import regenerate

    print(*regenerate(given.get("traces") or NAMES, given.get("out", FOLDER)), sep="\n")
    return 0
