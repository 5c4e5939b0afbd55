"""Sizes of the language model by name."""

PRESETS = {
    "tiny": dict(vocabulary=50, embedding=8, hidden=12, projection=6, layers=1, samples=16, keep=0.9),
    "small": dict(vocabulary=25_000, embedding=128, hidden=256, projection=128, layers=1, samples=512, keep=0.9),
    # docs/paper.md: LSTM 2048, projection 512, one-billion-word vocabulary; the authors clip the LSTM's variables only
    "paper": dict(vocabulary=793_470, embedding=512, hidden=2048, projection=512, layers=1, samples=8192, keep=0.9,
                  clipped="lstm"),
}
