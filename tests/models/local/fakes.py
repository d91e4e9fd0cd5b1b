"""A sentence model that counts words and an engine with scripted replies, so that tests need no weights."""

import hashlib
import math
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ziggurat.models.local.engine import ChatTemplate, Chunk, Engine
from ziggurat.models.local.minilm import MiniLm, Vector

DIMENSIONS = 384


class WordCounter(MiniLm):
    """An embedder for which texts are near when they share words."""

    def embed_now(self, texts: Sequence[str]) -> list[Vector]:
        return [self._count(text) for text in texts]

    def _count(self, text: str) -> Vector:
        counts = [0.0] * DIMENSIONS
        for word in re.findall(r"[a-z]+", text.lower()):
            number = int.from_bytes(hashlib.blake2b(word.encode(), digest_size=4).digest())
            counts[number % DIMENSIONS] += 1.0
        length = math.sqrt(sum(value * value for value in counts)) or 1.0
        return [value / length for value in counts]


class Parrot(Engine):
    """Returns each of its texts in turn, one character at a time, and records its requests."""

    def __init__(self, *texts: str, finish: str = "stop", template: ChatTemplate | None = None) -> None:
        self.path = Path("/models/parrot.gguf")
        self.slots, self.context, self.threads = 1, 2048, 1
        self.texts = list(texts)
        self.finish = finish
        self.chat_template = template or ChatTemplate()
        self.asked: list[Mapping[str, Any]] = []

    async def template(self) -> ChatTemplate:
        return self.chat_template

    async def stream(self, body: Mapping[str, Any]) -> AsyncGenerator[Chunk, None]:
        self.asked.append(body)
        text = self.texts.pop(0)
        for char in text:
            yield {"choices": [{"delta": {"content": char}}]}
        yield {"choices": [{"delta": {}, "finish_reason": self.finish}]}
        yield {"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": len(text)}}
