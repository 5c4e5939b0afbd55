"""The table behind the hybrid: bytes of a step, in and out, at the machine that has most of them.

    N machines with one worker and one server each; w bytes of a variable; α: the part of its rows that a worker touches

             one variable, at its owner       m variables, spread over the servers: everywhere
    dense    server     2 w (N - 1)           4 w m (N - 1) / N
             allreduce  4 w (N - 1) / N       4 w m (N - 1) / N
    sparse   server     2 α w (N - 1)         4 α w m (N - 1) / N
             allgather  2 α w (N - 1)         2 α w m (N - 1)

Dense: as many bytes, but the server has a hot spot. Sparse: the server moves N / 2 times less than allgather, and less
than sending all rows by allreduce as long as α < 1. Hence the hybrid. Row numbers, 8 bytes each, come on top.
Exact bytes of any plan: ``refimpl.plan.cost``, which tests hold to this. Source: docs/paper.md, Bytes.

    python -m refimpl.plain.cost_table
"""

from fractions import Fraction


def dense_server(w, N, m=1):
    """Bytes at the owner of one variable; everywhere, for m variables spread over all servers."""
    return 2 * w * (N - 1) if m == 1 else 4 * w * m * Fraction(N - 1, N)


def dense_allreduce(w, N, m=1):
    """Bytes everywhere: each of N sends and receives 2 (N - 1) / N of all that there is."""
    return 4 * w * m * Fraction(N - 1, N)


def sparse_server(w, N, alpha, m=1):
    """Bytes at the owner of one variable in one partition; everywhere, for m variables, or m partitions of size w."""
    return alpha * dense_server(w, N, m)


def sparse_allgather(w, N, alpha, m=1):
    """Bytes everywhere: each sends its rows to N - 1 others, and gets theirs."""
    return 2 * alpha * w * m * (N - 1)


def main(w=1_000_000, alpha=Fraction(1, 50), m=8):
    print(f"MB in and out of a machine, w = {w / 1e6:g} MB, m = {m} variables spread over the servers, α = {float(alpha)}")
    print(" N   dense: server, allreduce     sparse: server, allgather, as dense by allreduce")
    for N in (2, 4, 8, 16, 48):
        cells = (dense_server(w, N, m), dense_allreduce(w, N, m), sparse_server(w, N, alpha, m),
                 sparse_allgather(w, N, alpha, m), dense_allreduce(w, N, m))
        print(f"{N:2}" + "".join(f"{float(bytes_) / 1e6:14.3f}" for bytes_ in cells))


if __name__ == "__main__":
    main()
