"""A script of arrivals played to an owner: for adapters whose implementation has an owner to talk to."""


def play(owner, entries):
    """Return, for each pull, (entries that came before it was answered, name -> values). entries: see ``Arrivals``.

    owner: an object with answers(worker), whether this worker's pull may be answered now; pull(worker, rows), name ->
    values; and push(worker, gradients). Raises RuntimeError, saying where, if a pull waits for ever. Local.
    """
    answers, waiting = [], {}
    for number, (what, worker, parts) in enumerate(entries):
        if what == "pull":
            waiting[worker] = number, len(answers), parts
            answers.append(None)
        elif worker in waiting:
            raise RuntimeError(f"entry {number}: worker {worker} pushes, but its pull, entry {waiting[worker][0]}, was "
                               "not answered yet")
        else:
            owner.push(worker, parts)
        for w in [w for w in waiting if owner.answers(w)]:
            asked, place, rows = waiting.pop(w)
            answers[place] = number - asked, owner.pull(w, rows)
    if waiting:
        raise RuntimeError(f"the pulls of workers {sorted(waiting)} were never answered")
    return answers
