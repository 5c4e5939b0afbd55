"""Features of a case. If all failed cases have a feature that no passed case has, the mistake depends on it."""

import numpy as np

from refimpl.conformance.case import Case, Rows, numbers_of
from refimpl.conformance.space.manifest import has
from refimpl.conformance.words import names_in_words
from refimpl.plain.updating.optimizers_elsewhere import EVERY


def features(case: Case) -> dict[str, str]:
    """Return code -> words of all features of a case. Local."""
    return {code: words for code, words, has in (*OF_TASKS, *OF_INPUTS) if has(case)}


def telling(failed: list[Case], passed: list[Case]) -> tuple[str, str] | None:
    """Return (code, words) of a feature that all failed cases have and no passed case has, or None. Local."""
    if not passed:
        return None
    common, lacking = ([features(case) for case in cases] for cases in (failed, passed))
    for code, words in common[0].items():
        if all(code in each for each in common) and not any(code in each for each in lacking):
            return code, words
    return None


def optimizers_alone(failed: list[Case], passed: list[Case]) -> tuple[str, str] | None:
    """Return (code, words) of the failed cases' optimizers if no passed case has one of them, else None. Local."""
    names, others = ({case.settings.get("task", {}).get("optimizer") for case in cases} for cases in (failed, passed))
    if None in names or not others or names & others:
        return None
    return f"optimizer={'+'.join(sorted(names))}", f"with {names_in_words(sorted(names))} alone"


def _parts(case) -> list:
    """Return every gradient of every rank and step. A variable that is read at two places has two."""
    found = []
    for ranks in case.steps:
        for parts in ranks:
            for part in parts.values():
                found += part if isinstance(part, list) else [part] if part is not None else []
    return found


def _any_rows(condition):
    return lambda case: any(isinstance(p, Rows) and condition(p) for p in _parts(case))


def _any_numbers(condition):
    return lambda case: any(condition(numbers_of(p)) for p in _parts(case))


def _optimizer(*names):
    return lambda case: case.settings.get("task", {}).get("optimizer") in names


OF_TASKS = (
    ("resume", "after resuming alone", has("resume_after")),
    ("clip", "where gradients are clipped alone", has("clip")),
    ("window", "where micro-steps are accumulated alone", has("window")),
    ("loss-scale", "where the loss is scaled alone", has("loss_scale")),
    ("starts", "where ranks start from other values alone", lambda case: bool(case.settings.get("starts"))),
    ("rate-factor", "where the learning rate falls alone", has("rate_factor")),
    *((f"optimizer={name}", f"with {name} alone", _optimizer(name)) for name in ("adam", "adagrad", "momentum", "sgd")),
    ("state", "with optimizers that keep state alone", _optimizer(*set(EVERY) - {"sgd"})),
    ("root", "with optimizers that divide by a root alone", _optimizer("adam", "adagrad")),
)
"""(code, words, whether a training has the feature)."""

OF_INPUTS = (
    ("float16", "in float16 alone", _any_numbers(lambda a: a.dtype == np.float16)),
    ("float64", "in float64 alone", _any_numbers(lambda a: a.dtype == np.float64)),
    ("float32", "in float32 alone", _any_numbers(lambda a: a.dtype == np.float32)),
    ("ids-2^31", "with row numbers from 2^31 on alone", _any_rows(lambda p: p.ids.max(initial=0) >= 2**31)),
    ("ids-2^24", "with row numbers from 2^24 on alone", _any_rows(lambda p: p.ids.max(initial=0) >= 2**24)),
    ("absent", "where a rank has no gradient alone", lambda case: "absent" in case.needs),
    ("empty", "where a rank has no rows alone", _any_rows(lambda p: not len(p.ids))),
    ("repeated", "where ids repeat alone", _any_rows(lambda p: len(np.unique(p.ids)) < len(p.ids))),
    ("unsorted", "where ids are not sorted alone", _any_rows(lambda p: bool((np.diff(p.ids) < 0).any()))),
    ("strided", "where arrays are not contiguous alone", lambda case: any(
        not numbers_of(p).flags.c_contiguous for p in _parts(case))),
    ("nothing", "where an array has no element alone", _any_numbers(lambda a: a.ndim == 1 and a.size == 0)),
    ("not-finite", "with inf and NaN alone", _any_numbers(lambda a: not np.isfinite(a).all())),
    ("denormal", "with denormal numbers alone", _any_numbers(
        lambda a: a.dtype.kind == "f" and bool(((a != 0) & (np.abs(a) < np.finfo(a.dtype).tiny)).any()))),
    ("steps", "in cases of several steps alone", lambda case: len(case.steps) > 1),
    ("several", "where there are several variables alone", lambda case: len(case.variables) > 1),
    ("orders", "where ranks produce variables in different orders alone", lambda case: len(
        {tuple(parts) for ranks in case.steps for parts in ranks}) > 1),
)
"""(code, words, whether the inputs of a case have the feature)."""
