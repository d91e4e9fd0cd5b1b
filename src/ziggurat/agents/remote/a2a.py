"""a2a: a remote agent that speaks A2A, as a member of a team, as a tool, or to be run by itself."""

from ziggurat.agents.remote.agent import RemoteAgent
from ziggurat.agents.remote.client import A2aClient
from ziggurat.agents.runnable import Runnable
from ziggurat.core.facts import Effect
from ziggurat.core.ids import check_new_name
from ziggurat.core.settings import NonEmptyText, SecretText, checked
from ziggurat.journal.store import Store


@checked
def a2a(
    url: NonEmptyText,
    *,
    name: NonEmptyText,
    description: str = "",
    token: SecretText | None = None,
    effect: Effect = "repeatable",
    store: str | Store | None = None,
) -> Runnable[str]:
    """Return a remote agent that speaks A2A 1.0, to be used as any other agent::

        weather = a2a("https://agents.example.com/weather", name="weather", description="Knows the weather.")
        desk = Agent("openai:gpt-5", tools=[weather])

    It is sent the conversation, and its answer is the output, as text; a value comes as JSON. What it is asked for
    besides, is a question of the run, which waits for the answer. The task of the remote agent is on record: a run
    that is resumed goes on with it. If the call is cancelled, so is the task.

    Nothing is asked for before it is called. Its name and description are yours, for a model reads them: those of the
    card are not shown to it. The card must lead to the server of its own address.

    Args:
        url: The address of the agent, below which its card is, at ``/.well-known/agent-card.json``.
        name: Its name in paths, in teams, and as a tool.
        description: When to call it.
        token: A bearer token that its server asks for.
        effect: Whether a message may be sent again if it is unknown whether it has arrived; see `step`. Servers of
            Ziggurat take a message once in any case.
        store: Where runs of its own are kept.

    Raises:
        ConfigurationError: the address or the name cannot be one.
        MissingExtra: the extra ``http`` is not installed.
    """
    check_new_name(name, "the name of a remote agent")
    return Runnable(RemoteAgent(A2aClient(url, token), name, description, effect), name=name, store=store)
