"""What servers took, we take; what was broken, we refuse, where recorded conversations are at hand."""

import pytest

from tests.conformance.corpora import TRAFFIC, corpus
from tests.conformance.histories import score


def test_recorded_conversations_are_judged_as_servers_judge_them() -> None:
    file = corpus(TRAFFIC)
    if file is None:
        pytest.skip("the recorded conversations are not here")
    scores = score(file)
    assert scores.taken >= 0.995 * scores.accepted
    assert scores.refused.total() >= 0.99 * scores.negatives.total()
