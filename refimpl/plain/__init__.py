"""Every mechanism once, plainly: NumPy, mpi4py, once SciPy; each file is one idea and runs. Read them in this order.

    tree           in which order gradients are added up, so that any number of ranks gives the same bits
    rows           row gradients added up
    messages       how bytes travel, and how they are counted
    ring           the classic allreduce          allreduce   the one that adds in the tree's order
    schedule       an allreduce as data, proved before it runs
    channel        tensors written straight into the memory of the rank that needs them
    tree_packing   trees that use all links of a machine at once, whatever their rates
    server         rows dealt out to owners: pull, push         dense_server   the same for whole variables
    replicas       its rivals: dense values and row gradients sent to everybody
    reduce_scatter an allreduce in two halves, the optimizer between them: each rank updates its own rows
    aggregation    the ranks of a machine deal with the server as one
    cost_table     what all these cost in bytes
    sums, updates  given gradients become one, and update parameters: decision by decision, as frameworks decide
    worker, optimizers, clipping, hybrid     a training: gradients, update, each variable the way that suits it
    layerwise      large batches: LARS, LAMB, and momentum while the rate rises
    search         how many partitions a served variable is cut into
    agreement      all ranks go on, or all stop with one message; nobody waits for ever
    survive        ranks die; the others go on without them and end with the same bits

    groups         fully connected layers cut over groups of ranks: data and model parallelism at once
    mesh_layers, mesh              a step of such layers, decision by decision

Fewer bytes, and still one answer on any number of ranks, because each microbatch is encoded by itself:

    codecs         half the bits of each element            sparse_codecs  few elements
    level_codecs   a few bits for each element              power_sgd      a matrix as two thin ones
    residuals      what was left out is added to the next gradient

Without barriers the bits depend on who came when; they are a function of the record of it:

    consistencies  when a pull is answered, and what becomes of a push        corrections    of stale gradients
    owner          answers pulls, applies pushes, and keeps the record of their order
    async_worker   pulls from all owners, computes, pushes to all
    scripted_clock owners and workers on one rank, as if each took its time
    replay         the same parameters from the records alone                async_server   owners and workers on ranks

Without a server each rank trains a replica; who meets whom depends on the step alone, and no record is needed:

    own_replica    what a rank does by itself             decentralised  how replicas meet: EASGD, gossip, local steps

A learner that is no network:

    svm            a support vector machine; samples that cannot matter are left out early

Nothing here is fast. The fast system is held to these files bit for bit and byte for byte, by tests/plain.
"""
