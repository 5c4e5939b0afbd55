"""Translate sentences with a training's newest checkpoint, or score its held-out sentences."""

import json
import sys
from pathlib import Path

from rich.console import Console
from rich.progress import track

from refimpl.cli.asked.values import whole

REFUSALS = (ValueError, OSError)


def add(parser):
    """Add the options."""
    parser.add_argument("run", metavar="RUN", help="the run directory of a training of a translation model")
    parser.add_argument("text", nargs="*", metavar="TEXT", help="sentences; without any, the lines of standard input")
    parser.add_argument("--beam", type=whole(), metavar="K", help="hypotheses that are kept (default 4; 1 is greedy)")
    parser.add_argument("--heldout", type=whole(), metavar="N",
                        help="translate the first N held-out sentences instead, and score them")
    parser.add_argument("--json", action="store_true", help="print one JSON object a sentence, or the score")


def run(given: dict) -> int:
    """Translate, and print. Local."""
    translator, beam = Translator(Path(given["run"])), given.get("beam", 4)
    if "heldout" in given:
        if given.get("text"):
            raise ValueError("give sentences, or --heldout N")
        _print_score(translator.score(given["heldout"], beam), given.get("json", False))
        return 0
    for text in given.get("text") or map(str.strip, sys.stdin):
        found = translator.translate(text, beam)
        print(json.dumps({"source": text, "translation": found}, ensure_ascii=False) if given.get("json") else found,
              flush=True)
    return 0


class Translator:
    """A trained model and its vocabulary. Raises ValueError if the run's model does not translate."""

    def __init__(self, directory: Path):
        from models.recipe import Recipe, model_and_content
        from models.registry import entry_of
        from refimpl.training.run.checkpoint import read_parameters
        from refimpl.training.run.manifest import read_manifest

        recipe = Recipe.from_json(read_manifest(directory).describe)
        entry = entry_of(recipe.model)
        self.answer = entry.translate
        if self.answer is None:
            raise ValueError(f"{directory} holds a training of {recipe.model}, which does not translate: "
                             "give a run of a translation model")
        self.model, self.pairs = model_and_content(entry, recipe)
        self.values = read_parameters(directory)

    def translate(self, text: str, beam: int) -> str:
        """Return the translation of a sentence."""
        return self.pairs.text(self.answer(self.model, self.values, self.pairs.numbers(text), beam))

    def score(self, count: int, beam: int) -> dict:
        """Return the fraction of held-out sentences translated exactly; with sacrebleu installed also BLEU and chrF."""
        sources, targets = (part[:count] for part in self.pairs.heldout)
        found, expected = [], [self.pairs.text(target) for target in targets]
        for source in track(sources, "translating", console=Console(stderr=True), disable=not sys.stderr.isatty()):
            found.append(self.pairs.text(self.answer(self.model, self.values, source[source >= 0], beam)))
        exact = sum(a == b for a, b in zip(found, expected))
        return {"sentences": len(found), "exact": exact / len(found), **_bleu(found, expected)}


def _bleu(found, expected) -> dict:
    try:
        from sacrebleu.metrics import BLEU, CHRF
    except ImportError:
        return {}
    bleu = BLEU()
    return {"bleu": bleu.corpus_score(found, [expected]).score, "chrf": CHRF().corpus_score(found, [expected]).score,
            "signature": str(bleu.get_signature())}


def _print_score(score, as_json):
    if as_json:
        print(json.dumps(score))
        return
    print(f"{score['sentences']} held-out sentences: {score['exact']:.1%} translated exactly", end="")
    print(f"; BLEU {score['bleu']:.1f}, chrF {score['chrf']:.1f} ({score['signature']})" if "bleu" in score
          else "; for BLEU: pip install sacrebleu")
