"""Where no hypothesis explains everything: a common factor, ranks that differ, or at least the place."""

from refimpl.conformance.diagnose.diagnosis import Diagnosis, failing, names_in_words, ranks_in_words
from refimpl.conformance.diagnose.manifest import factor_of


def scaled(evidence, verdict):
    """All numbers of the variables that fail are one factor times ours."""
    ratio, names = factor_of(evidence), failing(evidence)
    if ratio in (None, 0.0, 1.0):
        return None
    size = evidence.case.ranks
    for factor, code, words in ((size, "multiplied-by-n", "N times ours: not averaged, or multiplied by N"),
                                (1 / size, "divided-again", "1/N of ours: divided by N once more")):
        if ratio == float(f"{factor:.6g}"):
            return Diagnosis(code, f"all numbers of {names_in_words(names)} are exactly {words}", f"{ratio:g} x ours")
    return Diagnosis("scaled", f"all numbers of {names_in_words(names)} are {ratio:g} x ours", vague=True)


def unlike_ranks(evidence, verdict):
    """Some ranks are right and others are not."""
    wrong = sorted({r for places in failing(evidence).values() for _, r in places if r is not None})
    if not wrong or len(wrong) == evidence.case.ranks:
        return None
    return Diagnosis("ranks-differ", f"{ranks_in_words(wrong)} {'differs' if len(wrong) == 1 else 'differ'} from what "
                     "the others rightly have", verdict.why, vague=True)


def somewhere(evidence, verdict):
    """Say where it begins."""
    return Diagnosis("unexplained", "no hypothesis explains these numbers", verdict.why, vague=True)
