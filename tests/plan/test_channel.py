"""The slots of a tensor channel: what the plan fixes is static, few rows are bounded, more are dynamic."""

import json

from refimpl.cli import main
from refimpl.plan.channel import BOUND

TINY = ["plan", "lm", "--preset", "tiny", "--ranks", "4", "--machines", "2", "--rate", "10mbit", "--architecture",
        "hybrid", "--microbatches", "4", "--channel", "--json"]


def planned(capsys, words):
    assert main([*TINY, "--data", f"synthetic:{words}"]) == 0
    return json.loads(capsys.readouterr().out)


def test_slots_and_their_bytes(capsys):
    """Tables of 300 words, on two machines of two ranks."""
    found = planned(capsys, 300)
    slots = found["channel"]
    assert {slot["kind"]: slot["form"] for slot in slots} == {
        "dense": "static", "control": "static", "indices": "bounded", "rows": "bounded"}
    for slot in slots:
        beside = {"static": 16, "bounded": 24}[slot["form"]]
        assert slot["nbytes"] <= slot["capacity"] + beside and slot["writer"] != slot["reader"]
        if slot["form"] == "static":
            assert slot["nbytes"] == slot["capacity"] + beside
        across = slot["writer"] // 2 != slot["reader"] // 2
        assert across == (slot["seconds"] >= slot["nbytes"] / 1.25e6)
    pulled = [slot for slot in slots if (slot["variable"], slot["phase"], slot["kind"]) == ("embedding", "pull", "rows")]
    width = next(v["nbytes"] for v in found["variables"] if v["variable"] == "embedding") // 300
    assert {slot["capacity"] % width for slot in pulled} == {0} and {slot["form"] for slot in pulled} == {"bounded"}


def test_rows_of_a_large_table_are_dynamic(capsys):
    slots = planned(capsys, 200_000)["channel"]
    rows = [slot for slot in slots if slot["kind"] in ("rows", "indices")]
    assert all((slot["form"] == "dynamic") == (slot["capacity"] > BOUND) for slot in rows)
    assert {slot["form"] for slot in rows if (slot["variable"], slot["kind"]) == ("embedding", "rows")} == {"dynamic"}


def test_the_table_is_printed(capsys):
    assert main([*TINY[:-1], "--data", "synthetic:300"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "slots of a tensor channel" in said and "embedding │ pull │ rows │ bounded" in said


def test_a_mesh_is_refused(capsys):
    assert main(["plan", "vgg", "--preset", "tiny", "--ranks", "4", "--rate", "10gbit", "--microbatches", "8",
                 "--microbatch-size", "1", "--mesh", "2x2", "--channel"]) == 1
    assert "--channel has no slots for activations: leave --mesh out" in capsys.readouterr().err
