"""Nothing is lost or doubled when connections are cut at random bytes and the server is killed; see `make cuts`."""

from pathlib import Path

from tests.serve.cuts import storm


async def test_readers_hear_everything_once_over_cuts_and_a_kill(tmp_path: Path) -> None:
    counts = await storm(300, 1, 1, tmp_path)
    assert counts["cuts"] >= 300
    assert counts["kills"] == 1
