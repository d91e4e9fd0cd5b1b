"""The Thought/Action/Observation protocol: tool calls for models that only write text."""

__all__ = ["FINAL_ANSWER", "ReactParser", "react"]

from ziggurat.models.react.layer import react
from ziggurat.models.react.parser import ReactParser
from ziggurat.models.react.prompt import FINAL_ANSWER
