"""Tools may do what was granted, and agents beneath never more."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ziggurat.core.context import Context
from ziggurat.core.errors import ConfigurationError, Denied
from ziggurat.messages.model import ToolSpec
from ziggurat.tools.permissions import GRANTS, PERMISSIONS, check, narrowed

NAMES = st.sets(st.sampled_from([*sorted(PERMISSIONS), "custom:mail", "custom:x"])).map(frozenset)


def _spec(*permissions: str) -> ToolSpec:
    return ToolSpec("act", permissions=permissions)


def test_a_tool_that_declares_nothing_needs_nothing() -> None:
    check(_spec(), Context("run"))


def test_without_a_grant_it_is_denied_and_told_what_is_missing() -> None:
    with pytest.raises(Denied, match=r"^tool 'act' denied: missing permissions: file_read, network$"):
        check(_spec("network", "file_read"), Context("run"))
    ctx = Context("run").within(GRANTS, frozenset({"network"}))
    with pytest.raises(Denied, match=r"missing permissions: file_read$"):
        check(_spec("network", "file_read"), ctx)
    check(_spec("network"), ctx)


@pytest.mark.parametrize("name", ["netwrk", "", "custom", "Network", "*"])
def test_a_grant_of_no_known_name_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match="unknown permission"):
        narrowed(Context("run"), frozenset({name}))


@given(NAMES, NAMES, NAMES)
def test_who_stands_beneath_never_has_more(one: frozenset[str], two: frozenset[str], three: frozenset[str]) -> None:
    ctx = Context("run")
    for grants in (one, two, three):
        ctx = ctx.within(GRANTS, narrowed(ctx, grants))
    assert ctx.scope[GRANTS] == one & two & three
