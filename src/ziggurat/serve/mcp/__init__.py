"""MCP: agents and tools for clients of the Model Context Protocol, in both of its eras.

- `offering` is what a server offers: `offered` tools and prompts, and `resources`; `contents` are their results on the
  wire, and `outputs` the schemas of them.
- Every call of a tool, and of a prompt, is a run: `calls` begins, continues and follows it, `tasks` are those that take
  long, and `inputs` the questions and approvals they wait for, as requests to the client.
- `legacy` answers clients of 2025-11-25 and before, `modern` those of 2026-07-28; `methods` is what both have.
- `http` (with `exchange`, `headers` and `sessions`) and `stdio` are the transports. `signing` lets ids of runs travel
  through clients; `caller` is what a request says of its client.
"""
