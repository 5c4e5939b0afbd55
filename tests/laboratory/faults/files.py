"""Damaged files: what is damaged, how, and the command that reads it; the honest training's directory is copied."""

import json
import os
import random
import shutil
from pathlib import Path

from faults.damage import ARRAY_DAMAGES, JSON_DAMAGES, damage_arrays, damage_json
from faults.signals import travel_options
from faults.trial import draw_travel
from refimpl.training.run.files import file_sha256
from refimpl.training.run.manifest import digest_of

BASE, END = 6, 9  # steps of the honest training whose checkpoint is damaged; of the one that continues it
POINTERS = ("/dev/zero", "/dev/null", "pipe", "directory", "../elsewhere.safetensors", "../../base/{arrays}", "",
            "symlink to /dev/zero", "symlink elsewhere", "another checkpoint's", "\u0000", "x" * 5000)
"""Where a manifest's ``arrays`` can point."""
PLANS = ("owner out of range", "owner negative", "owners in millions", "owner of another type", "a placement twice",
         "a placement left out", "buckets of strangers", "machines of strangers")
DAMAGES = {"manifest": JSON_DAMAGES, "pointer": POINTERS, "arrays": ARRAY_DAMAGES, "plan": (*JSON_DAMAGES, *PLANS),
           "metrics": JSON_DAMAGES, "config": JSON_DAMAGES}
FORGED = ("gone", "truncate", "empty", "noise", "longer", "integers", "float64", "shape", "missing", "no carried state")
"""Damages of arrays that can be seen whoever has signed them; of other values, signed anew, nobody can know."""
MILLIONS = 3_000_000


def draw(rng) -> dict:
    """Return a damage; ``draw`` seeds what it needs beside; forged: the manifest is signed anew, see ``forge``."""
    file = rng.choices(list(DAMAGES), (8, 2, 4, 5, 1, 1))[0]
    return {"file": file, "damage": rng.choice(DAMAGES[file]), "draw": rng.randrange(10**6),
            "forged": rng.random() < 0.6, **draw_travel(rng)}


def prepare(what: dict, base: Path, directory: Path) -> tuple[list[str], list[str], str]:
    """Copy the honest run and damage the copy; return (options of train, names of which one must be told, damage).

    Local. base: the honest run's directory.  directory: the copy's, made here.
    """
    shutil.copytree(base, directory)
    rng = random.Random(what["draw"])
    manifest = directory / f"checkpoint-{BASE}.json"
    arrays, plan = manifest.with_suffix(".safetensors"), directory / "plan.json"
    names, done = [manifest.name, arrays.name], ""
    match what["file"]:
        case "manifest":
            done = _rewrite(manifest, damage_json(what["damage"], manifest.read_text(), rng))
        case "pointer":
            done = _point(manifest, what["damage"])
            if what["forged"]:
                forge(manifest)
        case "arrays":
            done = _rewrite(arrays, damage_arrays(what["damage"], arrays.read_bytes(), rng))
            if what["forged"] and what["damage"] in FORGED:
                forge(manifest, sha256=file_sha256(arrays), bytes=arrays.stat().st_size)
        case "plan":
            done, names = _rewrite(plan, _damage_plan(what["damage"], plan.read_text(), rng)), ["plan"]
        case "metrics" | "config":
            path = directory / ("metrics.jsonl" if what["file"] == "metrics" else "config.json")
            done, names = _damage_record(path, what["damage"], rng), [path.name]
    travel = travel_options(what)
    if what["file"] == "plan":
        travel = [option for option in travel if option not in ("--architecture", what["architecture"])]
        return ["--steps", str(END), "--no-output", "--plan", str(plan), *travel], names, done
    return ["--resume", str(directory), "--steps", str(END), *travel], names, done


def forge(manifest: Path, **fields):
    """Let a manifest say something else, and sign it anew: its digest tells nothing then, other checks must. Local."""
    told = {**json.loads(manifest.read_text()), **fields}
    manifest.write_text(json.dumps({**told, "digest": digest_of(told)}))


def _damage_record(path: Path, how: str, rng) -> str:
    """Damage config.json, or the first line of metrics.jsonl."""
    first, newline, rest = path.read_text().partition("\n" if path.suffix == ".jsonl" else "\0")
    content, done = damage_json(how, first, rng)
    return _rewrite(path, (content + (newline + rest).encode(), done))


def _rewrite(path: Path, damaged: tuple[bytes, str]) -> str:
    path.write_bytes(damaged[0])
    return damaged[1]


def _point(manifest: Path, where: str) -> str:
    """Let the manifest's arrays be elsewhere: a device, a pipe, outside of its directory."""
    value, place = json.loads(manifest.read_text()), manifest.parent
    arrays = place / value["arrays"]
    match where:
        case "pipe":
            os.mkfifo(place / "pipe")
        case "directory":
            (place / "directory").mkdir()
        case "../elsewhere.safetensors":
            shutil.copy(arrays, place.parent / "elsewhere.safetensors")
        case "symlink to /dev/zero":
            arrays.unlink()
            arrays.symlink_to("/dev/zero")
            where = value["arrays"]
        case "symlink elsewhere":
            arrays.rename(place.parent / f"{place.name}.safetensors")
            arrays.symlink_to(place.parent / f"{place.name}.safetensors")
            where = value["arrays"]
        case "another checkpoint's":
            where = f"checkpoint-{BASE - 2}.safetensors"
    manifest.write_text(json.dumps({**value, "arrays": where.replace("{arrays}", value["arrays"])}))
    return f"arrays: {where[:40]!r}"


def _damage_plan(how: str, text: str, rng) -> tuple[bytes, str]:
    """Return (a damaged plan, what was done). how: of PLANS or JSON_DAMAGES."""
    if how not in PLANS:
        return damage_json(how, text, rng)
    value = json.loads(text)
    placements = value["placements"]
    owned = [p for p in placements if "owners" in p] or placements
    match how:
        case "owner out of range":
            rng.choice(owned)["owners"] = [0, 1, 3]
        case "owner negative":
            rng.choice(owned)["owners"] = [0, -1, 2]
        case "owners in millions":
            rng.choice(owned)["owners"] = [0, 1, 2] * (MILLIONS // 3)
        case "owner of another type":
            rng.choice(owned)["owners"] = rng.choice([["0"], [None], [0.5], 1, "012", [[0]], [True]])
        case "a placement twice":
            placements.append(placements[0])
        case "a placement left out":
            placements.pop(rng.randrange(len(placements)))
        case "buckets of strangers":
            value["buckets"] = [["nobody"]]
        case "machines of strangers":
            value["machines"] = [[0, 1, 2, 3]]
    return json.dumps(value).encode(), how
