"""By which transport device arrays travel: a table of what ranks say of their GPUs, and what follows. No GPU needed."""

import pytest

from refimpl.transport.device.choice import SHARING, RankGpu, choose_transport, version_name

OWN = [RankGpu("0000:01:00.0 of a", 23203), RankGpu("0000:02:00.0 of a", 23203), RankGpu("0000:01:00.0 of b", 23203)]


def _with(seats, **changes):
    return [seat._replace(**changes) for seat in seats]


def test_a_gpu_for_each_rank_means_nccl_as_it_is():
    choice = choose_transport(OWN)
    assert (choice.name, choice.environment) == ("nccl", {})
    assert "NCCL 2.32.3" in choice.reason and "GPU of its own" in choice.reason
    assert choose_transport(OWN, "nccl") == choice


@pytest.mark.parametrize("version, name", [(23203, "nccl"), (23000, "nccl"), (22907, "staged")])
def test_ranks_that_share_a_gpu_need_a_new_nccl_and_are_told(version, name):
    choice = choose_transport(_with(OWN, nccl=version, gpu="0000:01:00.0 of a"))
    assert choice.name == name
    assert choice.environment == (SHARING if name == "nccl" else {})
    for word in ("3 ranks", version_name(version), "share" if name == "staged" else "sharing"):
        assert word in choice.reason
    assert ("NCCL_MULTI_RANK_GPU_ENABLE=1" in choice.reason) == (name == "nccl")


@pytest.mark.parametrize("seats, words", [
    ([OWN[0], OWN[1]._replace(nccl=0)], ["no NCCL on rank 1", "cuda12"]),
    (_with(OWN, nccl=0), ["no NCCL on ranks 0, 1, 2", "pip install nvidia-nccl-cu12"]),
    ([OWN[0], OWN[1]._replace(nccl=23007)], ["2.32.3 on rank 0, 2.30.7 on rank 1", "install the same"]),
    (_with(OWN[:1] * 2, nccl=22907), ["2 ranks share the GPU 0000:01:00.0 of a", "NCCL 2.29.7 cannot", "2.30"]),
])
def test_where_nccl_cannot_serve_it_is_staged_with_the_reason_and_refused_if_wanted(seats, words):
    choice = choose_transport(seats)
    assert choice.name == "staged" and not choice.environment
    with pytest.raises(ValueError) as refused:
        choose_transport(seats, "nccl")
    for word in words:
        assert word in choice.reason and word in str(refused.value)


@pytest.mark.parametrize("wanted", ["auto", "nccl", "staged"])
def test_of_one_rank_there_is_nothing_to_say(wanted):
    assert choose_transport(_with(OWN[:1], nccl=0), wanted) == choose_transport(OWN[:1])
    assert choose_transport(OWN[:1]).reason == ""


def test_staged_can_be_asked_for():
    assert choose_transport(OWN, "staged").name == "staged"


def test_an_unknown_transport_is_refused_by_name():
    with pytest.raises(ValueError, match="'nvlink'; there are auto, nccl, staged"):
        choose_transport(OWN, "nvlink")
