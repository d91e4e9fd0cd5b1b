"""Functions that take the square, which must be found, and ones that do not, which must pass."""

from tests.growth.measure import Case


class _Joined:
    def __init__(self) -> None:
        self.text = ""

    def push(self, letter: str) -> None:
        self.text += letter


def join(letters: str) -> None:
    joined = _Joined()
    for letter in letters:
        joined.push(letter)


def find_in_list(letters: str) -> None:
    seen: list[int] = []
    for number in range(len(letters)):
        if number not in seen:
            seen.append(number)


def take_from_front(letters: str) -> None:
    while letters:
        letters = letters[1:]


def choose(text: str) -> list[str]:
    return [each for each in text if each in "abc"]


SQUARE = [
    Case(f"plants.{slow.__name__}", "letters", lambda size: "😀" * size, slow, least, 16 * least, 16 * least)
    for slow, least in ((join, 4_000), (find_in_list, 250), (take_from_front, 4_000))
]

LINEAR = [
    Case(f"plants.{quick.__name__}", "letters", lambda size: "bca" * (size // 3), quick)
    for quick in (len, list, sorted, choose)
]
