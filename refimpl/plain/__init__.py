"""Every mechanism once, in plain NumPy and mpi4py (one file uses SciPy). Each file shows one idea; most can be run.

Read the packages in this order, and the files of a package in theirs. Skip the files with a star when you read for the
first time. They are for the conformance suite (docs/conformance.md): each decision that implementations make in
different ways is a method there.

    messages             messages between ranks, with their bytes counted

adding                   the order of addition, and how frameworks add up differently
    tree                 the order in which gradients are added up, so that any number of ranks gives the same bits
    rows                 sums of row gradients
  * bags                 row gradients of pooled look-ups
  * sums                 sums of gradients

collectives              each rank has a vector, and all get the sum
    ring                 the classic allreduce
    allreduce            the allreduce that adds in tree order
    hierarchical         an allreduce within each machine and between the machines
    schedule             an allreduce as data, proved before it runs
    channel              tensors written straight into the memory of the rank that needs them
    tree_packing         trees that use all links of a machine together, whatever their rates

updating                 an optimizer changes values
    sgd, optimizers      the formulas
  * optimizers_elsewhere the formulas of other frameworks
    clipping             clipping by the global norm
    layerwise            LARS and LAMB, for large batches
  * updates              updates with given gradients

strategies               how a variable is kept and exchanged
    server               a parameter server, its rows spread over the ranks
    dense_server         the same for dense variables
    replicas             the alternative: every rank keeps everything, row gradients go to all ranks
    reduce_scatter       an allreduce in two halves with the optimizer between them: each rank updates its own rows
    aggregation          the ranks of a machine merge their pulls and pushes
    hot_rows             every rank keeps a copy of the rows that all ranks need in every step
    cost_table           the bytes of each of these ways
    search               the number of partitions into which a table on the server is cut

training                 all ranks take each step together
    worker, hybrid       a whole training
    checkpoint           a training resumes on any other number of ranks
    large_batches        a training with LARS or LAMB
    mixed_precision      weights and activations of 16 bits, and a scale for the loss
    agreement            all ranks continue, or all stop with the same message; no rank waits for ever
    backup, survive      ranks die; the others continue without them and end with the same bits

model_parallel           fully connected layers cut over groups of ranks: data and model parallelism together
    groups               a step on ranks
  * mesh_layers, mesh    the same step

encoding                 fewer bytes. Each microbatch is encoded by itself, so any number of ranks gives the same bits
    codec                what a codec is
    codecs               half the bits of each element
    sparse_codecs        few elements
    level_codecs         a few bits for each element
    power_sgd            a matrix as two thin ones
    residuals            error feedback: what the encoding left out is added to the next gradient
  * encoded_steps        steps of an encoded gradient

without_barriers         The bits depend on the order in which pulls and pushes arrive. An event log reproduces it.
                         Without a server (the last two files) they depend on step numbers alone.
    consistencies        when a pull is answered, and when pushes are applied
    corrections          gradients from old values, made smaller or corrected
    stale, owner         answers pulls, corrects and applies pushes, and writes the event log
    async_worker         pulls from all owners, computes, pushes to all
    scripted_clock       owners and workers on one rank, with scripted computing times
    replay               the same parameters from the event logs alone
    async_server         owners and workers on ranks
    own_replica          no server: each rank trains a replica
    decentralised        EASGD, gossip, local steps

    svm                  a learner that is no neural network. Samples that cannot become support vectors are left out
                         early

*Collective* means that all ranks must call a function together; *local* means that a rank may call it alone.

Nothing here is fast. Tests (tests/plain) compare the fast system with these files, bit for bit and byte for byte.
"""
