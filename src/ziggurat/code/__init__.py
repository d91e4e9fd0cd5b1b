"""Agents that work with files, programs that models write, and a long context that they read."""

from typing import TYPE_CHECKING

from ziggurat.core.lazy import lazy

if TYPE_CHECKING:
    from ziggurat.code.deep import LargeResults as LargeResults, Todos as Todos, deep_agent as deep_agent
    from ziggurat.code.recursive import recursive_agent as recursive_agent
    from ziggurat.code.tool import CodeTool as CodeTool
    from ziggurat.code.workspace import Workspace as Workspace
else:  # type checkers would accept any name of a module with __getattr__
    __getattr__, __dir__, __all__ = lazy(__name__)
