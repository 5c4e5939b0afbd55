"""What ``train`` prints before the first step of a training, and after the last one."""

import json

from refimpl.collectives.choose import TREES
from refimpl.gradients.codecs import IDENTITY, codec_of
from refimpl.plain.without_barriers.consistencies import is_decentralised
from refimpl.plan.codecs import codecs_allowed
from refimpl.plan.plan import SYNCHRONOUS
from refimpl.words import counted

READ_IN_PLACE = ("The dense bytes are counted by the formula of the allreduce. They are not sent, because the ranks "
                 "read them in shared memory.")


def introduce(comm, recipe, options, output, changes=()):
    """Print what is trained, how, and where the files go; for a resumed run, also what has changed."""
    preset = f" ({recipe.preset})" if recipe.preset else ""
    mesh = f", mesh {options.mesh}" if options.mesh else ""
    codec = "".join(f", {which} gradients as {how}" for which, how in options.codec.items())
    print(f"{recipe.model}{preset} on {recipe.data}: {options.architecture}{mesh}{codec}, "
          f"{counted(comm.size, 'rank')}, {counted(recipe.microbatches, 'microbatch')} of {recipe.microbatch_size}, "
          f"{options.optimizer}, {counted(options.steps, 'step')} -> {output or 'no files'}", flush=True)
    if options.consistency != SYNCHRONOUS:
        correction = "" if options.correction == "none" else f", gradients corrected by {options.correction}"
        where = (" on a replica of its own" if is_decentralised(options.consistency) else
                 "; owners record the order of pulls and pushes")
        print(f"consistency {options.consistency}{correction}: each worker does {options.steps} steps{where}",
              flush=True)
    if changes:
        print(f"resumed with {', '.join(changes)}", flush=True)
    allreduce = (options.plan or {}).get("allreduce", options.allreduce)
    in_own_order = allreduce in ("ring", "double-tree") or allreduce.startswith(TREES)
    dense = codecs_allowed(options.codec).get("dense", [IDENTITY])
    in_any_order = all(codec_of(codec).scaled for codec in dense)  # sums of integers
    if in_own_order and not in_any_order and comm.size > 2 and options.architecture != "ps":
        print(f"note: {allreduce} adds in another order for each number of ranks, so the last bits of the result "
              "depend on this number (docs/design.md, I1)", flush=True)


def plot_search(result, output, quiet):
    """Draw a partition search's measurements into the run directory."""
    if output is None or not (result.partition_search or {}).get("samples"):
        return
    from refimpl.pictures import plans

    path = plans.plot_search(result.partition_search, output / "partitions.png")
    if not quiet:
        print(f"partition search: {path}", flush=True)


def plot_staleness_of(result, output, quiet):
    """Draw the staleness of the gradients at each owner into the run directory."""
    if output is None or not any(result.staleness):
        return
    from refimpl.pictures.stragglers import plot_staleness

    owners = {f"owner {number}": {int(late): count for late, count in each.items()}
              for number, each in enumerate(result.staleness)}
    path = plot_staleness(owners, "rows and dense variables").save(output / "staleness.svg")
    if not quiet:
        print(f"staleness: {path}", flush=True)


def kinds_told(sent: list) -> list[str]:
    """Return the kinds of bytes to print, activations only if some were sent. sent: kind -> bytes, of each run."""
    return [kind for kind in ("dense", "rows", "indices", "activations")
            if kind != "activations" or any(one.get(kind) for one in sent)]


def print_result(result, unit, as_json):
    """Print the result of a training (loss, quality, speed, bytes, hashes), or everything as one JSON object."""
    record = result.to_json()
    if as_json:
        print(json.dumps(record), flush=True)
        return
    kinds = kinds_told([result.sent_per_step])
    sent = ", ".join(f"{kind} {result.sent_per_step[kind]:,.0f} B" for kind in kinds)
    quality = "".join(f"  held-out {name} {record[name]:.4g}" for name in ("perplexity", "accuracy") if name in record)
    if record["loss"] is None:  # no step was done here: a replay on other ranks, or a run that had ended
        print(quality.strip())
    else:
        speed = "" if record["examples_per_second"] is None else f"  {result.examples_per_second:,.0f} {unit}/s"
        print(f"loss {result.loss:.4f}{quality}{speed}")
        print(f"sent per rank and step: {sent}")
    if result.shared_memory:
        print(READ_IN_PLACE + " Those of layers that are cut over a group are sent." * ("activations" in kinds))
    print(f"parameters sha256 {result.parameters_sha256}")
    print(f"state      sha256 {result.state_sha256}", flush=True)
