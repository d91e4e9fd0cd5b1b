"""Nothing is lost or doubled when connections are cut at random bytes and the server is killed; see `make cuts`."""

from pathlib import Path

from tests.samples import amount
from tests.serve.cuts import storm


async def test_readers_hear_everything_once_over_cuts_and_a_kill(tmp_path: Path) -> None:
    cuts = amount(40, 300)
    counts = await storm(cuts, 1, 1, tmp_path)
    assert counts["cuts"] >= cuts
    assert counts["kills"] == 1
