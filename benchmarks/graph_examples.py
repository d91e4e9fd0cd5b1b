"""The five examples of `examples/graph_*.py` in LangGraph: what they print there, and the lines of both.

    python -P benchmarks/graph_examples.py            # the lines
    PYTHON -P benchmarks/graph_examples.py run        # what LangGraph does, with a Python that has it

Lines are counted in the same way: those of `examples.apps.ports.lines`, without imports, types of states, what only
prints or asserts, and the function around them.
"""

import ast
import inspect
import operator
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypedDict

ROOT = Path(__file__).parents[1]


def graph_branches() -> None:
    """A join after branches of unequal length, which waits for both only with defer=True."""
    from langgraph.graph import END, START, StateGraph

    class Letters(TypedDict):
        seen: Annotated[list[str], operator.add]

    def letter(name: str) -> Callable[[Letters], dict[str, Any]]:
        def node(state: Letters) -> dict[str, Any]:
            return {"seen": [name]}

        return node

    builder: Any = StateGraph(Letters)
    for name in ("a", "b", "b2", "c", "d"):
        builder.add_node(name, letter(name), defer=name == "d")
    builder.add_edge(START, "a")
    builder.add_edge("a", "b")
    builder.add_edge("a", "c")
    builder.add_edge("b", "b2")
    builder.add_edge("b2", "d")
    builder.add_edge("c", "d")
    builder.add_edge("d", END)
    graph = builder.compile()
    output = graph.invoke({"seen": []})
    print(*output["seen"])


def graph_map() -> None:
    """A call for each item, by edges with states of their own."""
    from langgraph.graph import END, START, StateGraph
    from langgraph.types import Send

    class Jokes(TypedDict):
        topic: str
        subjects: list[str]
        jokes: Annotated[list[str], operator.add]
        best: str

    class JokeState(TypedDict):
        subject: str

    def subjects(state: Jokes) -> dict[str, Any]:
        return {"subjects": ["lions", "elephants", "penguins"]}

    def joke(state: JokeState) -> dict[str, Any]:
        return {"jokes": [f"a joke about {state['subject']}"]}

    def continue_to_jokes(state: Jokes) -> list[Any]:
        return [Send("joke", {"subject": each}) for each in state["subjects"]]

    def best(state: Jokes) -> dict[str, Any]:
        return {"best": max(state["jokes"], key=len)}

    builder: Any = StateGraph(Jokes)
    builder.add_node("subjects", subjects)
    builder.add_node("joke", joke)
    builder.add_node("best", best)
    builder.add_edge(START, "subjects")
    builder.add_conditional_edges("subjects", continue_to_jokes, ["joke"])
    builder.add_edge("joke", "best")
    builder.add_edge("best", END)
    graph = builder.compile()
    output = graph.invoke({"topic": "animals"}, {"max_concurrency": 3})
    print(", ".join(output["jokes"]))
    print(output["best"])


def graph_person() -> None:
    """A question, before which the code of the node runs again; any answer is taken."""
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.graph import END, START, StateGraph
    from langgraph.types import Command, interrupt

    class Review(TypedDict):
        text: str
        notes: Annotated[list[str], operator.add]

    def draft(text: str) -> str:
        print("drafting")
        return f"{text}, in short"

    def feedback(state: Review) -> dict[str, Any]:
        stars = interrupt(f"How many stars for {draft(state['text'])!r}?")
        return {"notes": ["*" * stars]}

    def thank(state: Review) -> dict[str, Any]:
        return {"notes": [f"thanks for {state['notes'][-1]}"]}

    builder: Any = StateGraph(Review)
    builder.add_node("feedback", feedback)
    builder.add_node("thank", thank)
    builder.add_edge(START, "feedback")
    builder.add_edge("feedback", "thank")
    builder.add_edge("thank", END)
    graph = builder.compile(checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "review-1"}}
    output = graph.invoke({"text": "Ziggurats"}, config)
    (question,) = output["__interrupt__"]
    output = graph.invoke(Command(resume=3), config)
    print(question.value, *output["notes"])


def graph_history() -> None:
    """The states of a thread, and two ways to go on from one, both in the same thread."""
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.graph import END, START, StateGraph

    class Joke(TypedDict):
        topic: str
        said: Annotated[list[str], operator.add]

    def topic(state: Joke) -> dict[str, Any]:
        return {"topic": state.get("topic") or "socks"}

    def joke(state: Joke) -> dict[str, Any]:
        return {"said": [f"where do {state['topic']} go?"]}

    def laugh(state: Joke) -> dict[str, Any]:
        return {"said": [f"ha, {len(state['said'])}"]}

    builder: Any = StateGraph(Joke)
    builder.add_node("topic", topic)
    builder.add_node("joke", joke)
    builder.add_node("laugh", laugh)
    builder.add_edge(START, "topic")
    builder.add_edge("topic", "joke")
    builder.add_edge("joke", "laugh")
    builder.add_edge("laugh", END)
    graph = builder.compile(checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "joke-1"}}
    graph.invoke({}, config)
    history = list(graph.get_state_history(config))
    for point in history:
        print(point.metadata["step"], point.next, point.values)
    again = graph.invoke(None, next(each for each in history if each.next == ("laugh",)).config)
    before = next(each for each in history if each.next == ("joke",))
    other = graph.invoke(None, graph.update_state(before.config, {"topic": "keys"}))
    print(again["said"][-1], other["said"][0], graph.get_state(config).values["topic"], sep="; ")


def graph_in_graph() -> None:
    """A graph with another state in a function that converts both ways; both run again after a question."""
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.graph import END, START, StateGraph
    from langgraph.types import Command, interrupt

    class Inner(TypedDict):
        text: str

    class Outer(TypedDict):
        topic: str
        notes: Annotated[list[str], operator.add]

    def shout(state: Inner) -> dict[str, Any]:
        return {"text": state["text"].upper() + interrupt("How does it end?")}

    inner: Any = StateGraph(Inner)
    inner.add_node("shout", shout)
    inner.add_edge(START, "shout")
    inner.add_edge("shout", END)
    inner_graph = inner.compile()

    def begin(state: Outer) -> dict[str, Any]:
        print("begin")
        return {"notes": [f"on {state['topic']}"]}

    def call_inner(state: Outer) -> dict[str, Any]:
        return {"notes": [inner_graph.invoke({"text": state["topic"]})["text"]]}

    builder: Any = StateGraph(Outer)
    builder.add_node("begin", begin)
    builder.add_node("inner", call_inner)
    builder.add_edge(START, "begin")
    builder.add_edge("begin", "inner")
    builder.add_edge("inner", END)
    graph = builder.compile(checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "outer-1"}}
    output = graph.invoke({"topic": "ur"}, config)
    (question,) = output["__interrupt__"]
    print(question.value)
    output = graph.invoke(Command(resume="!"), config)
    print(*output["notes"], sep=", ")


EXAMPLES: tuple[Callable[[], None], ...] = (graph_branches, graph_map, graph_person, graph_history, graph_in_graph)


def code_of(text: str) -> str:
    """Return the code that counts of a program with a function `main`, or of one function."""
    body: list[ast.stmt] = []
    frames = {"main", *(each.__name__ for each in EXAMPLES)}
    for statement in ast.parse(text).body:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)) and statement.name in frames:
            body.extend(statement.body)
        else:
            body.append(statement)
    return "\n".join(ast.unparse(each) for each in body if _counts(each))


def _counts(statement: ast.stmt) -> bool:
    if isinstance(statement, (ast.Import, ast.ImportFrom, ast.ClassDef, ast.Assert, ast.If)):
        return False
    if isinstance(statement, ast.For):
        return any(_counts(each) for each in statement.body)
    call = statement.value if isinstance(statement, ast.Expr) else None
    return not isinstance(call, ast.Constant) and not (
        isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "print"
    )


def lines() -> dict[str, tuple[int, int]]:
    """Return the lines of each example by its name: with LangGraph, and here."""
    from examples.apps.ports.lines import count

    found = {}
    for each in EXAMPLES:
        here = (ROOT / "examples" / f"{each.__name__}.py").read_text(encoding="utf-8")
        found[each.__name__] = (count(code_of(inspect.getsource(each))), count(code_of(here)))
    return found


if __name__ == "__main__":
    if sys.argv[1:] == ["run"]:
        for example in EXAMPLES:
            print(f"== {example.__name__}")
            example()
    else:
        sys.path.insert(0, str(ROOT))
        for title, (theirs, ours) in lines().items():
            print(f"{title:16} LangGraph {theirs:3}, here {ours:3}")
