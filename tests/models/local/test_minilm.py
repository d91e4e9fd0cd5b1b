"""Tests of the tokenizer: known tokens, strange texts, the limit."""

from hypothesis import given, strategies as st

from ziggurat.models.local.minilm import pieces, vocabulary, words


def _texts(text: str) -> list[str]:
    names = {number: piece for piece, number in vocabulary().items()}
    return [names[number] for number in pieces(text, 64)]


def test_a_sentence_in_pieces() -> None:
    assert _texts("Embeddings, please!") == ["[CLS]", "em", "##bed", "##ding", "##s", ",", "please", "!", "[SEP]"]
    assert pieces("hello world", 64) == [101, 7592, 2088, 102]
    assert list(words("Café\u0000 DÉJÀ\tvu")) == ["cafe", "deja", "vu"]
    assert list(words("東京tower")) == ["東", "京", "tower"]
    assert _texts("🦜")[1] == "[UNK]"
    assert _texts("x" * 101)[1] == "[UNK]"


@given(st.text(max_size=300), st.integers(min_value=2, max_value=40))
def test_any_text_is_framed_and_within_the_limit(text: str, limit: int) -> None:
    numbers = pieces(text, limit)
    assert numbers[0] == 101
    assert numbers[-1] == 102
    assert 2 <= len(numbers) <= limit
