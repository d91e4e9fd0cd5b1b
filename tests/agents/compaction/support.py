"""Helpers for the tests of compaction."""

import asyncio
from collections.abc import Sequence
from typing import Any

from ziggurat import Message
from ziggurat.calls.rewrite import apply_rewriting
from ziggurat.compaction import Compaction
from ziggurat.core import root
from ziggurat.core.context import JOURNAL, Scope
from ziggurat.journal import LocalJournal
from ziggurat.messages import Rewrite, RewriteRequest, Transcript
from ziggurat.testing import ScriptedModel


def rewrite_request(messages: Sequence[Message], **given: Any) -> RewriteRequest:
    """Return a request to rewrite these messages."""
    transcript = Transcript.of(*messages)
    turns = sum(message.role == "user" and message.origin is None for message in messages)
    figures: dict[str, Any] = {"tokens": transcript.size() // 4, "turns": turns, **given}
    return RewriteRequest(transcript, ScriptedModel(always="of the agent's own"), **figures)


def compacted(
    messages: Sequence[Message], compaction: Compaction, **given: Any
) -> tuple[Rewrite | None, list[Message]]:
    """Return the rewriting of a compaction, and the messages after it."""
    ctx = root("run", Scope().with_value(JOURNAL, LocalJournal()))
    made = asyncio.run(compaction.rewrite(rewrite_request(messages, **given), ctx))
    return made, list(messages) if made is None else apply_rewriting(list(messages), made)
