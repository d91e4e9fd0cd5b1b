"""MCP: agents and tools for clients of the Model Context Protocol, in both of its eras.

- `offering` is what a server offers: `offered` tools and prompts, and resources; `contents` are their results on the
  wire. Every call of a tool, and of a prompt, is a run: `calls` begins, continues and follows it, and `inputs` are the
  questions and approvals that it waits for, as requests to the client.
- `legacy` answers clients of 2025-11-25 and before, `modern` those of 2026-07-28; `methods` is what both have, and
  `caller` what a request says of its client. `http` and `stdio` are the transports.
"""
