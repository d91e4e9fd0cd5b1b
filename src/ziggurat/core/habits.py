"""Names that other libraries use for what has another name here; errors show the way."""

from collections.abc import Set

from ziggurat.core.similar import similar

ARGUMENTS = (
    dict.fromkeys(("system", "system_prompt", "system_message", "prompt"), "Agent(instructions=...)")
    | dict.fromkeys(("model_settings",), "Agent(settings=ModelSettings(...))")
    | {
        each: f"Agent(settings=ModelSettings({each}=...))"
        for each in ("temperature", "max_tokens", "top_p", "tool_choice")
    }
    | dict.fromkeys(("max_turns", "max_iterations", "recursion_limit"), "Agent(max_steps=...)")
    | dict.fromkeys(("output_type", "result_type", "response_format", "response_model"), "Agent(output=...)")
    | dict.fromkeys(("handoffs", "sub_agents"), "handoffs(agent, other) of ziggurat.teams")
    | dict.fromkeys(("usage_limits",), "budget=Budget(...)")
    | dict.fromkeys(("thread_id", "session_id", "conversation_id"), "run(..., session=...)")
    | dict.fromkeys(("message_history", "chat_history", "messages"), "run(..., history=...)")
    | {"functions": "Agent(tools=[...])", "llm": "Agent(model)", "callbacks": "run(..., listeners=[...])"}
    | dict.fromkeys(("guardrails", "hooks", "plugins"), "Agent(middleware=[...])")
    | dict.fromkeys(("context", "deps_type"), "run(..., deps={KEY: value})")
    | dict.fromkeys(("stream",), "async with agent.stream(...) as events")
)
"""The form to write, by the keyword argument of an agent or a run."""

OF_AGENTS = frozenset(
    [
        "tools",
        "instructions",
        "name",
        "description",
        "output",
        "output_validator",
        "settings",
        "max_steps",
        "stop",
        "timeout",
        "budget",
        "middleware",
        "store",
        "debug",
    ]
)
"""The arguments of an agent that a run does not have."""

OF_RUNS = frozenset(
    ["history", "deps", "listeners", "run_id", "session", "labels", "environment", "detached", "decisions", "strict"]
)
"""The arguments of a run that an agent does not have."""

_CREDENTIALS = frozenset(("headers", "auth", "api_key", "credentials", "bearer"))

_SHARED = frozenset(("instructions", "history"))
"""Agents and runs are known by these arguments; nothing else has the names of other libraries."""


def meant_by(name: str, known: Set[str]) -> str:
    """Return the argument that was probably meant, as the end of an error's text; empty if that is unclear."""
    if name in ARGUMENTS and not _SHARED.isdisjoint(known):
        return f"; write {ARGUMENTS[name]}"
    if name in OF_AGENTS and "history" in known:
        return f"; write Agent({name}=...)"
    if name in OF_RUNS and "instructions" in known:
        return f"; write run(..., {name}=...)"
    if name in _CREDENTIALS and "token" in known:
        return "; pass the credentials as token=..."
    return "".join(f"; did you mean {each!r}?" for each in similar(name, known))
