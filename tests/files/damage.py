"""What may befall a file: the damages of the hostile trials, drawn by Hypothesis."""

import json
import os
from contextlib import suppress

from faults.damage import BYTE_DAMAGES, JSON_DAMAGES, damage_bytes, damage_json
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

FUZZ = settings(max_examples=int(os.environ.get("REFIMPL_FUZZ_EXAMPLES", "100")),  # damages that each test draws
                suppress_health_check=list(HealthCheck))  # on a machine that has much else to do all is slow


@st.composite
def damaged_text(draw, right):
    """Return a JSON text with one to three damages, as long as it is JSON that has something to damage."""
    content = json.dumps(right).encode()
    with suppress(ValueError, IndexError, RecursionError):  # no JSON any more, or empty
        for how in draw(st.lists(st.sampled_from(JSON_DAMAGES), min_size=1, max_size=3)):
            content, _ = damage_json(how, content.decode(), draw(st.randoms(use_true_random=True)))
    return content


@st.composite
def damaged_bytes(draw, right: bytes):
    """Return bytes with a damage."""
    return damage_bytes(draw(st.sampled_from(BYTE_DAMAGES)), right, draw(st.randoms(use_true_random=True)))[0]
