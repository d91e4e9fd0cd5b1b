"""Tools of other programs: a client of the Model Context Protocol, in both of its eras."""

from typing import TYPE_CHECKING

from ziggurat.core.lazy import lazy

if TYPE_CHECKING:
    from ziggurat.mcp.answers import Elicitation as Elicitation
    from ziggurat.mcp.client import McpClient as McpClient
    from ziggurat.mcp.door import mcp as mcp, mcp_servers as mcp_servers
    from ziggurat.mcp.oauth import OAuth as OAuth
else:  # type checkers would accept any name of a module with __getattr__
    __getattr__, __dir__, __all__ = lazy(__name__)
