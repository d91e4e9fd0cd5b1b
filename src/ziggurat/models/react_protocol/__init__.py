"""The Thought/Action/Observation protocol: tool calls for models that only write text."""

__all__ = ["FINAL_ANSWER", "ReactParser", "react"]

from ziggurat.models.react_protocol.layer import react
from ziggurat.models.react_protocol.parser import ReactParser
from ziggurat.models.react_protocol.prompt import FINAL_ANSWER
