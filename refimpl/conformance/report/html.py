"""The outcome as one HTML page that needs nothing else."""

from html import escape

from refimpl.conformance.report.expected import ExpectedFailures
from refimpl.conformance.report.plain import plain
from refimpl.conformance.semantics import CHOICES
from refimpl.words import counted

STYLE = """body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:70rem;padding:0 1rem;color:#222}
table{border-collapse:collapse;width:100%}td,th{text-align:left;padding:.25rem .7rem .25rem 0;vertical-align:top;
border-bottom:1px solid #ddd}tr.v td{font-size:.85em;border:0}
tr.v td:first-child{padding-left:1.5rem}td.n{text-align:right;font-variant-numeric:tabular-nums}.passed{color:#17722f}
.failed{color:#b3261e;font-weight:600}.skipped{color:#777}.expected{color:#946200}section{margin:2rem 0}
blockquote{margin:.8rem 0;padding:.4rem 1rem;border-left:4px solid #b3261e;background:#fbf3f2}small{color:#555}
pre{overflow:auto}
@media(prefers-color-scheme:dark){body{background:#181818;color:#ddd}td,th{border-color:#444}
blockquote{background:#2a2020}}"""


def html_page(outcomes, expected: ExpectedFailures = ExpectedFailures()) -> str:
    """Return a page about one or more outcomes of one target. Local."""
    data = [plain(outcome, expected) for outcome in outcomes]
    sections = "".join(map(_section, data))
    target = escape(data[0]["target"])
    return (f"<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
            f"<title>Conformance of {target}</title><style>{STYLE}</style><h1>Conformance of {target}</h1>"
            f"{sections}<section><h2>Manifest</h2>{_manifest(data[0]['manifest'])}</section></html>\n")


def _section(data) -> str:
    counts = ", ".join(f"{number} {status}" for status, number in data["counts"].items())
    diagnoses = "".join(map(_diagnosis, data["diagnoses"]))
    rows = "".join(map(_row, data["cases"]))
    return (f"<section><h2>{counted(data['ranks'], 'rank')}: {counts}</h2>{diagnoses}<table><tr>"
            f"<th>case<th>stage<th>outcome<th>compared<th>worst ULP<th>of bound<th>first difference, or why not</tr>"
            f"{rows}</table></section>")


def _diagnosis(found) -> str:
    program = (f"<details><summary>A program that shows it</summary><pre>{escape(found['snippet'])}</pre></details>"
               if found["snippet"] else "")
    return (f"<blockquote><b>{escape(found['words'])}</b><br>{escape(found['evidence'])}<br><small>{found['code']}: "
            f"{escape(', '.join(found['cases']))}</small>{program}</blockquote>")


def _row(case) -> str:
    status = "expected" if "expected_failure" in case else case["status"]
    compared = ", ".join(sorted({f["comparison"] for f in case["findings"]}))
    why = case["why"] + (f" (expected: {case['expected_failure']})" if status == "expected" else "")
    numbers = [_number(case[key]) if case["findings"] else "" for key in ("worst_ulp", "worst_ratio")]
    variables = "".join(map(_variable, case["findings"])) if len(case["findings"]) > 1 else ""
    return (f"<tr><td>{escape(case['case'])}<td>{case['stage']}<td class={status}>{status}<td>{compared}"
            f"<td class=n>{numbers[0]}<td class=n>{numbers[1]}<td>{escape(why)}</tr>{variables}")


def _variable(finding) -> str:
    status = "passed" if finding["ok"] else "failed"
    return (f"<tr class=v><td>{escape(finding['variable'])}<td><td class={status}>{status}<td>{finding['comparison']}"
            f"<td class=n>{_number(finding['worst_ulp'])}<td class=n>{_number(finding['worst_ratio'])}"
            f"<td>{escape(finding['words'])}</tr>")


def _number(value) -> str:
    return escape(value) if isinstance(value, str) else f"{value:.3g}"


def _manifest(manifest) -> str:
    rows = ""
    for field, value in manifest.items():
        meaning = CHOICES.get(field, {}).get(value, "") if isinstance(value, str) else ""
        rows += f"<tr><td>{escape(field)}<td>{escape(str(value))}<td>{escape(meaning)}</tr>"
    return f"<table>{rows}</table>"
