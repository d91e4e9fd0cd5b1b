"""The documentation says how many attacks are tried, by kind; it is what the tests have."""

import re
from pathlib import Path

from tests.http import test_fetcher as addresses
from tests.serve import test_attacks as raw, test_other_pages as pages, test_page_attacks as fields, test_proxy as proxy

DOCUMENT = Path(__file__).parents[2] / "docs" / "serve.md"


def test_as_many_attacks_are_tried_as_the_documentation_says() -> None:
    names = len(pages.SOURCES) + 1  # a name that points here is asked by two names
    actual = {
        "raw requests": len(raw.ATTACKS),
        "broken requests": len(raw.BROKEN),
        "behind a proxy": 2 * len(proxy.UNTRUSTED) + len(proxy.TRUSTED),
        "pages of others": names * (len(pages.READS) * 4 + len(pages.WRITES) * len(pages.CHANGES)),
        "texts in fields": len(fields.PAYLOADS) * len(fields.FIELDS),
        "addresses to fetch": sum(map(len, (addresses.LOOPBACK, addresses.ELSEWHERE, addresses.NO_ADDRESS))) + 10,
    }
    rows = re.findall(r"^\| ([a-z ]+) \| (\d+) \|", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE)
    assert {name: int(count) for name, count in rows if name in actual} == actual
