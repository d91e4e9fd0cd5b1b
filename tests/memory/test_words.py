"""What a word is, in indexes, queries and comparisons."""

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from tests.samples import amount
from ziggurat.memory import MemoryRecord, Query, open_memory
from ziggurat.memory.words import indexed_words, is_polite, query_words, stem, stems, terms


def test_examples() -> None:
    name = ["don't", "open", "report", "2024", "pdf", "at", "zoe's"]
    assert terms("Don't open report_2024.pdf at Zo\u00eb's!") == name
    assert terms("\u6211\u4f4f\u5728\u5317") == ["\u6211\u4f4f", "\u4f4f\u5728", "\u5728\u5317"]
    assert stem("\u043c\u043e\u0441\u043a\u0432\u0430") == stem("\u043c\u043e\u0441\u043a\u0432\u044b")
    assert stems("Anna's dogs were barking") == ["anna", "dog", "were", "bark"]
    assert query_words("Where is the tea?") == ["tea"]
    assert is_polite("OK, thank you very much!")
    assert not is_polite("Thanks, where is the key?")


# words and stems of the vocabulary in Porter's article
PORTER = """
    caresses caress ponies poni ties ti cats cat feed feed agreed agre plastered plaster bled bled motoring motor
    sing sing conflated conflat troubled troubl sized size hopping hop tanned tan falling fall hissing hiss fizzed
    fizz failing fail filing file happy happi sky sky relational relat conditional condit rational ration valenci
    valenc hesitanci hesit digitizer digit conformabli conform radicalli radic differentli differ vileli vile
    analogousli analog vietnamization vietnam predication predic operator oper feudalism feudal decisiveness decis
    hopefulness hope callousness callous formaliti formal sensitiviti sensit sensibiliti sensibl triplicate
    triplic formative form formalize formal electriciti electr electrical electr hopeful hope goodness good
    revival reviv allowance allow inference infer airliner airlin gyroscopic gyroscop adjustable adjust defensible
    defens irritant irrit replacement replac adjustment adjust dependent depend adoption adopt homologou homolog
    communism commun activate activ angulariti angular homologous homolog effective effect bowdlerize bowdler
    probate probat rate rate cease ceas controll control roll roll
"""


@pytest.mark.parametrize(("word", "expected"), list(zip(PORTER.split()[::2], PORTER.split()[1::2], strict=True)))
def test_english_words_are_compared_by_their_stems(word: str, expected: str) -> None:
    assert stem(word) == expected


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("M\u00e1laga is her home town", "malaga"),
        ("Zo\u00eb\u2019s caf\u00e9 opens at 8", "zoe cafe"),
        ("Die STRASSE ist lang", "stra\u00dfe"),
        ("S\u00f8ren lives in \u0141\u00f3d\u017a", "soren lodz"),
        ("The file is report_2024.pdf", "report 2024"),
        ("C:\\Users\\ann\\notes.txt", "notes"),
        ("Write to anna.berg@posteo.de", "Anna"),
        ("See https://example.com/docs/setup", "docs setup"),
        ("ticket ABC-1234 is closed", "abc-1234"),
        ("born on 2019-05-03", "05"),
        ("\u6211\u4f4f\u5728\u5317\u4eac\uff0c\u559c\u6b22\u559d\u8336", "\u5317\u4eac"),
        ("\u6211\u4f4f\u5728\u5317\u4eac\uff0c\u559c\u6b22\u559d\u8336", "\u8336"),
        ("\u79c1\u306f\u6771\u4eac\u306b\u4f4f\u3093\u3067\u3044\u307e\u3059", "\u6771\u4eac"),
        ("\uc11c\uc6b8\uc5d0\uc11c \uc0b4\uc544\uc694", "\uc11c\uc6b8"),
        (
            "\u041f\u0440\u0438\u0432\u0435\u0442 \u0438\u0437 \u041c\u043e\u0441\u043a\u0432\u044b",
            "\u043c\u043e\u0441\u043a\u0432\u044b",
        ),
        ("Ключ от подвала лежит в ящике стола", "ключи подвал стол"),
        ("Красный дом в Москве", "красная москва"),
        ("\u0939\u093f\u0928\u094d\u0926\u0940 \u092e\u0947\u0902", "\u0939\u093f\u0928\u094d\u0926\u0940"),
        ("dog \U0001f436\U0001f3fd!", "\U0001f436"),
        ("\uff12\uff10\uff12\uff14 budget", "2024"),
        ("word" * 100, "word" * 100),
    ],
)
def test_each_word_of_a_query_is_a_word_of_the_text(text: str, query: str) -> None:
    indexed = indexed_words(MemoryRecord(id="a", owner="ann", content=text))
    assert query_words(query)
    assert all(word in indexed for word in query_words(query))


@settings(max_examples=amount(40, 500))
@given(st.text(max_size=60))
def test_a_text_is_found_by_itself_in_any_case(text: str) -> None:
    indexed = indexed_words(MemoryRecord(id="a", owner="ann", content=text))
    assert set(stems(text)) <= set(indexed)
    assert all(1 <= len(word) <= 64 for word in indexed)
    assert terms(text.upper().lower()) == terms(text.upper().lower())


def test_tags_of_people_and_the_context_are_searched_and_tags_of_the_runtime_are_not() -> None:
    record = MemoryRecord(
        id="a",
        owner="Ann",
        content="tea, teas",
        tags=("hot drink", "key:home", "consolidated"),
        facts={"context": "what tea?"},
    )
    assert indexed_words(record) == {"tea": 2.5, "hot": 1.0, "drink": 1.0, "what": 0.5}
    assert indexed_words(MemoryRecord(id="a", owner="x", content="tea", facts={"context": 7})) == {"tea": 1.0}


def test_common_words_are_left_out_of_queries_unless_there_are_no_others() -> None:
    assert query_words("When did Ann's dog bark? Dogs don't!") == ["ann", "dog", "bark"]
    assert query_words("to be or not to be") == ["to", "be", "or", "not"]
    assert query_words(" ?! ") == []


WITHOUT = """
import asyncio, sys
sys.modules["snowballstemmer"] = None
from ziggurat.memory import AgentMemory, open_memory

async def main():
    memory = AgentMemory(open_memory(sys.argv[1]), "ann")
    await memory.remember("The dogs barked.")
    print([len(await memory.recall(query)) for query in ("dogs", "dog")])
    await memory.store.close()

asyncio.run(main())
"""


def without_stems(url: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", WITHOUT, url], capture_output=True, text=True, check=False)


async def found(url: str, query: str) -> int:
    store = open_memory(url)
    try:
        return len(await store.search(Query(owner="ann", text=query)))
    finally:
        await store.close()


@pytest.mark.parametrize("place", ["memory:", "sqlite:///{}/m.db"])
def test_without_the_extra_words_are_found_as_they_are(place: str, tmp_path: Path) -> None:
    assert without_stems(place.format(tmp_path)).stdout == "[1, 0]\n"


async def test_a_file_written_without_stems_gets_them(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/m.db"
    without_stems(url)
    assert [await found(url, query) for query in ("dogs", "dog", "barking")] == [1, 1, 1]


async def test_a_file_written_with_stems_names_the_extra_that_it_needs(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/m.db"
    store = open_memory(url)
    await store.add([MemoryRecord(id="1", owner="ann", content="Cats purr.")])
    await store.close()
    assert "ziggurat[memory]" in without_stems(url).stderr
    assert await found(url, "cat") == 1
    assert await found(url, "dog") == 0
