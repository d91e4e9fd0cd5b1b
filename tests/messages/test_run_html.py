"""Runs as people see them in a shell and in a notebook."""

from html.parser import HTMLParser

from hypothesis import given, strategies as st

from ziggurat import AgentRun, Message, Text, ToolCall, ToolResult, Usage, user
from ziggurat.messages import Transcript, assistant, stops, tool_call, tool_message

SUM = tool_call("add", a=1, b=2)
OURS = {"div", "b", "table", "tr", "th", "td", "i", "code", "br", "pre"}
HOSTILE = (
    "<script>alert(1)</script>", "</pre><img src=x onerror=alert(1)>", "\"><a href='javascript:x'>", "&lt;b&gt;",
    "\u202e\x1b[31m\x00", "]]><!--",
)  # fmt: skip


class Reader(HTMLParser):
    """The tags and attributes of a page, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.text = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes.update(f"{name}={value}" for name, value in attrs)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data}")

    def handle_data(self, data: str) -> None:
        self.text += data


def run_of(
    *messages: Message, output: object = "It is 3.", stop: stops.Stop | None = None, agent: str = "clerk"
) -> AgentRun:
    tokens = Usage(1200, 30, requests=2)
    conversation = Transcript.of(user("1 + 2?"), *messages)
    return AgentRun(
        conversation, stop or stops.Completed(), output, tokens, 2, 1, 2, "r-1", "clerk", start=1, seconds=2.0
    )


def page_of(run: AgentRun) -> str:
    return run._repr_html_()


def test_a_run_is_shown_in_one_line() -> None:
    run = run_of(assistant(SUM), tool_message(ToolResult("1", "add", "3")), assistant("It is 3."))
    figures = "2 steps · 1 tool call · tokens: 1,200 in, 30 out · unpriced · 2.0 s"
    assert repr(run) == "<AgentRun Completed 'It is 3.', 2 steps, 1230 tokens>"
    assert run.__rich_repr__() == [("stop", stops.Completed()), ("output", "'It is 3.'"), ("figures", figures)]


def test_a_run_without_an_output_shows_why() -> None:
    assert repr(run_of(output=None, stop=stops.Failed("no answer", "ModelError"))).startswith(
        "<AgentRun Failed 'no answer', "
    )
    assert repr(run_of(assistant("so far"), output=None, stop=stops.Suspended())).startswith(
        "<AgentRun Suspended 'so far', "
    )


def test_the_table_has_steps_calls_results_and_figures() -> None:
    failed = ToolResult("1", "add", "no b", "invalid_arguments")
    page = page_of(run_of(assistant("let me see", SUM), tool_message(failed), assistant("It is 3.")))
    for shown in ("clerk: completed", "1 tool call", "1,200 in", "<i>let me see</i>", "add(a=1, b=2)", "It is 3."):
        assert shown in page
    assert "✗ invalid_arguments: no b" in page


@given(st.lists(st.one_of(st.text(), st.sampled_from(HOSTILE)), min_size=7, max_size=7))
def test_whatever_was_written_is_shown_as_text(texts: list[str]) -> None:
    said, name, arguments, result, output, error, agent = texts
    call = ToolCall("1", name, arguments)
    messages = (assistant(Text(said), call), tool_message(ToolResult("1", name, result)), assistant(said))
    failed = stops.Failed(error, name)
    for run in (run_of(*messages, output=output, agent=agent), run_of(*messages, output=None, stop=failed)):
        seen = Reader(page_of(run))
        assert seen.tags <= OURS
        assert seen.attributes <= {"style=text-align:left;vertical-align:top"}
        assert not any(character < " " for character in seen.text)
        assert "\n" not in repr(run)


def test_a_long_run_has_a_short_table() -> None:
    calls = tuple(tool_call("add", id=str(at), a=at) for at in range(1000))
    results = Message("tool", tuple(ToolResult(call.id, "add", "x" * 10_000) for call in calls))
    page = page_of(run_of(*[assistant(*calls), results] * 200, output="y" * 100_000))
    assert "150 earlier steps" in page
    assert "980 more calls" in page
    assert len(page) < 500_000
    assert len(repr(run_of(output="y" * 100_000))) < 200
