"""Dialogues over several sessions with facts that change, driven through an agent with a memory.

    PYTHONPATH=src python -m tests.memory.dialogues [--half choosing|reporting] [--dialogues 30]
        [--judge key|model|tool|none] [--plain]

Each dialogue is made from a seed: in five sessions a user states facts of some domains, changes some of them in other
words, takes one back, and talks about other things; then each domain is asked about. An update is told in one of four
ways: under a key (`about`), with the old fact named by a model that is shown the nearest stored facts (by `FactsBy`, or
by the result of the tool `remember`), or without either, so that both facts are stored. A model that names the old fact
calls the subject of the new one by another name. Constants are chosen with one half of the templates and reported with
the other.
"""

__all__ = ["JUDGES", "Counts", "Dialogue", "dialogue", "measure"]

import argparse
import asyncio
import random
import re
from collections.abc import Iterator

from msgspec import Struct

from ziggurat import Agent, ModelRequest, ToolCall
from ziggurat.agents.memory.policies import FactsBy
from ziggurat.memory import MemoryStore, Remembering, memory_tools, open_memory
from ziggurat.messages import tool_call
from ziggurat.messages.message import MEMORY
from ziggurat.messages.model import Embedder
from ziggurat.models import resolve_embedder
from ziggurat.testing import ScriptedModel

JUDGES = ("key", "model", "tool", "none")
"""Who says that a fact replaces another one: a key, a model that is shown both, or nobody."""

SESSIONS = 5


class Domain(Struct, frozen=True):
    """Something that can be said about a user: a first statement, an update in other words, and a question."""

    name: str
    first: str
    update: str
    question: str
    values: tuple[str, ...]


_VALUES = {
    "home": ("Rome", "Oslo", "Lisbon", "Graz", "Dublin", "Nairobi"),
    "job": ("Acme", "the harbour office", "a bakery", "Umbrella Bank", "the city library", "a law firm"),
    "diet": ("vegetarian", "vegan", "pescatarian", "kosher", "low-carb", "gluten-free"),
    "car": ("a red Fiat", "an old Volvo", "a blue Tesla", "a Skoda", "a camper van", "a Mini"),
    "doctor": ("Dr Berger", "Dr Okafor", "Dr Lindqvist", "Dr Tanaka", "Dr Moreau", "Dr Novak"),
    "pet": ("a beagle", "two cats", "a parrot", "a tortoise", "a hamster", "three goldfish"),
    "phone": ("0664 2211", "0151 9087", "0770 4432", "0611 2345", "0898 7761", "0322 1940"),
    "instrument": ("the viola", "the drums", "the piano", "the flute", "the accordion", "the harp"),
    "language": ("Korean", "Portuguese", "Arabic", "Finnish", "Polish", "Swahili"),
    "sport": ("swimming", "fencing", "rowing", "bouldering", "badminton", "judo"),
    "partner": ("Jonas", "Mireille", "Tariq", "Svetlana", "Diego", "Akiko"),
    "rent": ("840 euros", "1,240 euros", "990 euros", "1,075 euros", "760 euros", "1,530 euros"),
    "coffee": ("black", "with oat milk", "with two sugars", "as an espresso", "decaffeinated", "iced"),
    "flight": ("6:40", "9:15", "13:05", "17:50", "20:25", "22:10"),
    "thesis": ("coral reefs", "medieval trade", "compilers", "jazz harmony", "glaciers", "urban bees"),
    "allergy": ("peanuts", "birch pollen", "penicillin", "shellfish", "latex", "wasp stings"),
}

_PLAIN = {
    "home": "Where do I live?", "job": "Where do I work?", "diet": "What is my diet?", "car": "Which car do I drive?",
    "doctor": "Who is my doctor?", "pet": "What pets do I have?", "phone": "What is my phone number?",
    "instrument": "Which instrument do I play?", "language": "Which language am I learning?",
    "sport": "Which sport do I train?", "partner": "Who is my partner?", "rent": "How much rent do I pay?",
    "coffee": "How do I drink my coffee?", "flight": "When does my flight leave?",
    "thesis": "What is my thesis about?", "allergy": "What am I allergic to?",
}  # fmt: skip
"""Questions in ordinary words; those of the templates are in other words than the facts."""

_TEMPLATES = {
    "choosing": {
        "home": ("The user lives in {}.", "The user has moved to {}.", "In which town is my flat?"),
        "job": ("The user works at {}.", "The user has a new employer: {}.", "Who pays my salary?"),
        "diet": ("The user eats {} food.", "The user has switched to a {} diet.", "What should you cook for me?"),
        "car": ("The user drives {}.", "The user bought {} and sold the old car.", "Which vehicle do I own?"),
        "doctor": ("The user's doctor is {}.", "The user changed to the surgery of {}.", "Which physician treats me?"),
        "pet": ("The user has {} at home.", "The user's animals now: {}.", "Which pets do I keep?"),
        "phone": ("The user's phone number is {}.", "The user can now be called at {}.", "Which number reaches me?"),
        "instrument": ("The user plays {}.", "The user took up {} instead.", "What music lessons do I take?"),
        "language": ("The user is learning {}.", "The user dropped that and studies {}.", "Which tongue do I learn?"),
        "sport": ("The user goes {} every week.", "The user's weekly training is {} now.", "How do I keep fit?"),
        "partner": ("The user is together with {}.", "The user's new partner is called {}.", "Whom do I love?"),
        "rent": ("The user pays {} of rent.", "The landlord raised it to {} a month.", "How much is my apartment?"),
        "coffee": ("The user takes coffee {}.", "The user prefers coffee {} these days.", "How is my cappuccino?"),
        "flight": ("The user's flight leaves at {}.", "The plane was rebooked to {}.", "When do I take off?"),
        "thesis": ("The user writes a thesis on {}.", "The dissertation is about {} now.", "What do I research?"),
        "allergy": ("The user is allergic to {}.", "Tests showed a reaction to {}.", "What can I not tolerate?"),
    },
    "reporting": {
        "home": ("Their address is in {}.", "They settled down in {} last week.", "What city am I based in?"),
        "job": ("They are employed by {}.", "They signed a contract with {}.", "Where do I go to work?"),
        "diet": ("They only want {} meals.", "From now on they live {}.", "Which kind of dish may I be served?"),
        "car": ("They own {}.", "They got themselves {} in exchange.", "What is parked in my garage?"),
        "doctor": ("They see {} when they are ill.", "They are a patient of {} since May.", "Who examines me?"),
        "pet": ("They look after {}.", "They adopted {} in place of the former.", "What animal lives with me?"),
        "phone": ("One reaches them under {}.", "They got another mobile: {}.", "What do people dial to ring me?"),
        "instrument": ("They practise {}.", "They have begun with {}.", "What do I play in the orchestra?"),
        "language": ("They take lessons in {}.", "They go to evening classes in {} now.", "What do I want to speak?"),
        "sport": ("They train {}.", "They found a club for {}.", "What exercise do I do?"),
        "partner": ("They are married to {}.", "They got divorced and live with {}.", "Who is my better half?"),
        "rent": ("Their flat costs {} a month.", "The lease went up to {}.", "What do I owe the landlord?"),
        "coffee": ("They drink coffee {}.", "They want their coffee {} at present.", "How shall the barista serve me?"),
        "flight": ("They fly at {}.", "The airline moved the departure to {}.", "When does my plane go?"),
        "thesis": ("They do a doctorate on {}.", "They chose {} as a new topic.", "What is my PhD about?"),
        "allergy": ("They cannot stand {}.", "It turned out they must avoid {}.", "What makes me sneeze or swell?"),
    },
}  # fmt: skip

_SUBJECTS = {
    "home": ("home town", "residence"), "job": ("job", "employer"), "diet": ("diet", "food"),
    "car": ("car", "means of transport"), "doctor": ("doctor", "medical care"), "pet": ("pets", "household"),
    "phone": ("phone number", "contact"), "instrument": ("instrument", "music"), "language": ("language", "course"),
    "sport": ("sport", "leisure"), "partner": ("partner", "relationship"), "rent": ("rent", "housing costs"),
    "coffee": ("coffee", "preferences"), "flight": ("flight", "travel plans"), "thesis": ("thesis", "university"),
    "allergy": ("allergy", "health"),
}  # fmt: skip
"""What a model may call the subject of a fact: of a first statement, and of an update."""

_TALK = (
    "Thanks, that helps.", "It rained all day here.", "Can you tell me a joke?", "I slept badly.",
    "What is seven times eight?", "The train was late again.", "Nice, see you tomorrow.", "I watched a long film.",
)  # fmt: skip


class Turn(Struct, frozen=True):
    """Something said: a fact of a domain that may replace an earlier one, a retraction, or talk."""

    text: str
    domain: str = ""
    replaces: str = ""
    retracts: bool = False


class Dialogue(Struct, frozen=True):
    """A script and what is true in the end.

    Attributes:
        sessions: What is said in each session.
        current: The last fact of each domain; empty if it was taken back or never stated.
        stale: The facts of each domain that no longer hold.
        questions: The question about each domain.
    """

    sessions: list[list[Turn]]
    current: dict[str, str]
    stale: dict[str, list[str]]
    questions: dict[str, str]


def dialogue(seed: int, half: str, *, plain: bool = False) -> Dialogue:
    """Make a dialogue, with updates in other words and, unless `plain`, questions in other words.

    Of twelve domains five stay, four change once or twice, one is taken back, two never come up.
    """
    draw = random.Random(f"{half} {seed}")
    domains = [Domain(name, *_TEMPLATES[half][name], _VALUES[name]) for name in draw.sample(sorted(_VALUES), 12)]
    said: dict[str, list[str]] = {}
    for place, domain in enumerate(domains[:10]):
        count = 1 if place < 5 or place == 9 else draw.choice((2, 2, 3))
        values = draw.sample(domain.values, count)
        said[domain.name] = [(domain.update if at else domain.first).format(value) for at, value in enumerate(values)]
    sessions: list[list[Turn]] = [[] for _ in range(SESSIONS)]
    for name, facts in said.items():
        places = sorted(draw.sample(range(SESSIONS - 1), len(facts)))
        for at, (place, fact) in enumerate(zip(places, facts, strict=True)):
            sessions[place].append(Turn(fact, name, facts[at - 1] if at else ""))
    retracted = domains[9].name
    sessions[-1].append(Turn(said[retracted][0], retracted, retracts=True))
    for session in sessions:
        for _ in range(2):
            session.insert(draw.randint(0, len(session)), Turn(draw.choice(_TALK)))
    current = {each.name: said.get(each.name, [""])[-1] for each in domains}
    current[retracted] = ""
    stale = {each.name: [fact for fact in said.get(each.name, []) if fact != current[each.name]] for each in domains}
    return Dialogue(
        sessions, current, stale, {each.name: _PLAIN[each.name] if plain else each.question for each in domains}
    )


class Counts(Struct):
    """What the agent was reminded of, when it was asked about each domain.

    Attributes:
        asked: Questions about a fact that is true.
        first: Those whose fact was the first memory.
        recalled: Those whose fact was among the memories.
        updated: Questions about a fact that had changed.
        updated_first: Those whose current fact came before all its predecessors.
        stale: Questions for which a fact that no longer holds was recalled.
        doubted_known: Questions about a fact that is true for which every memory was shown with a doubt.
        unknown: Questions without an answer.
        nothing: Those for which no memory was recalled.
        doubtful: Those for which no memory was recalled, or each was shown with a doubt.
        updates: Updates.
    """

    asked: int = 0
    first: int = 0
    recalled: int = 0
    updated: int = 0
    updated_first: int = 0
    stale: int = 0
    doubted_known: int = 0
    unknown: int = 0
    nothing: int = 0
    doubtful: int = 0
    updates: int = 0


async def measure(half: str, seeds: range, judge: str, embedder: Embedder, *, plain: bool = False) -> Counts:
    """Return the counts of some dialogues."""
    counts = Counts()
    for seed in seeds:
        script = dialogue(seed, half, plain=plain)
        store = open_memory("memory:")
        for session in script.sessions:
            for turn in session:
                await _say(store, turn, judge, embedder)
        counts.updates += sum(bool(turn.replaces) for session in script.sessions for turn in session)
        for domain, question in script.questions.items():
            await _ask(store, script, domain, question, embedder, counts)
    return counts


async def _say(store: MemoryStore, turn: Turn, judge: str, embedder: Embedder) -> None:
    """Let an agent hear something, in a run of its own, and remember it as the judge decides."""
    if turn.retracts:
        found = [record async for record in store.scan(owner="ann") if record.content == turn.text]
        replies = [tool_call("forget", memory_id=record.id) for record in found]
    elif not turn.domain or judge == "model":
        replies = []
    elif judge == "key":
        replies = [tool_call("remember", fact=turn.text, about=turn.domain)]
    else:
        replies = [tool_call("remember", fact=turn.text)]
    model = ScriptedModel(*replies, always="Noted.")
    if judge == "tool" and turn.domain and not turn.retracts:
        model = ScriptedModel(always=lambda request: _told(request, turn))
    policy = FactsBy(model=ScriptedModel(lambda request: _judged(request, turn))) if judge == "model" else None
    agent = Agent(
        model, tools=memory_tools(), middleware=[Remembering(store, "ann", embedder=embedder, remember=policy)]
    )
    await agent.run(turn.text)


def _told(request: ModelRequest, turn: Turn) -> ToolCall | str:
    """Remember a fact, and once more if the result shows the one that no longer holds."""
    last = request.messages[-1]
    if last.role == "user":
        return tool_call("remember", fact=turn.text, about=_subject(turn))
    shown = " ".join(str(part) for part in last.parts)
    found = re.search(re.escape(turn.replaces) + r" \([^)]*\) \[(\w+)\]", shown) if turn.replaces else None
    return "Noted." if found is None else tool_call("remember", fact=turn.text, about=_subject(turn), replaces=found[1])


def _judged(request: ModelRequest, turn: Turn) -> str:
    """Answer as a model that knows which of the stored facts it is shown no longer holds."""
    if not turn.domain or turn.retracts:
        return "NONE"
    for line in request.messages[-1].text.splitlines():
        number, _, fact = line.partition(". ")
        if turn.replaces and fact.partition("] ")[2] == turn.replaces:
            return f"{number} -> [{_subject(turn)}] {turn.text}"
    return f"[{_subject(turn)}] {turn.text}"


def _subject(turn: Turn) -> str:
    return _SUBJECTS[turn.domain][bool(turn.replaces)]


async def _ask(
    store: MemoryStore, script: Dialogue, domain: str, question: str, embedder: Embedder, counts: Counts
) -> None:
    run = await Agent(ScriptedModel("?"), middleware=[Remembering(store, "ann", embedder=embedder)]).run(question)
    lines = [line for message in run.messages if message.origin == MEMORY for line in _lines(message.text)]
    recalled = [text for _, text in lines]
    doubtful = all("perhaps about something else" in notes for notes, _ in lines)
    current, stale = script.current[domain], script.stale[domain]
    counts.stale += any(fact in recalled for fact in stale)
    if not current:
        counts.unknown += 1
        counts.nothing += not recalled
        counts.doubtful += doubtful
        return
    counts.asked += 1
    counts.first += recalled[:1] == [current]
    counts.recalled += current in recalled
    counts.doubted_known += doubtful
    if stale:
        counts.updated += 1
        of_domain = [line for line in recalled if line == current or line in stale]
        counts.updated_first += of_domain[:1] == [current]


def _lines(text: str) -> Iterator[tuple[str, str]]:
    """Yield the notes on each memory, and its text."""
    for line in text.splitlines():
        notes, bracket, memory = line.partition("] ")
        if bracket:
            yield notes, memory


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--half", choices=tuple(_TEMPLATES), default="reporting")
    parser.add_argument("--dialogues", type=int, default=30)
    parser.add_argument("--judge", choices=JUDGES, default="key")
    parser.add_argument("--plain", action="store_true", help="ask in ordinary words")
    given = parser.parse_args()
    embedder, seeds = resolve_embedder("local"), range(given.dialogues)
    print(asyncio.run(measure(given.half, seeds, given.judge, embedder, plain=given.plain)))


if __name__ == "__main__":
    main()
