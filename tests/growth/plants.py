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


class _Cold:
    """Takes the square, and the first time, as with an import or a cold cache, a millisecond more."""

    def __init__(self) -> None:
        self.warm = False

    def find_when_cold(self, letters: str) -> None:
        if not self.warm:
            self.warm = sum(range(50_000)) > 0
        find_in_list(letters)


def choose(text: str) -> list[str]:
    return [each for each in text if each in "abc"]


SQUARE = [
    *(
        Case(f"plants.{slow.__name__}", "letters", lambda size: "😀" * size, slow, least, 16 * least, 16 * least)
        for slow, least in ((join, 4_000), (find_in_list, 250), (take_from_front, 4_000))
    ),
    Case("plants.find_when_cold", "letters", lambda size: "😀" * size, _Cold().find_when_cold, 60, most=960, span=4),
]

LINEAR = [
    Case(f"plants.{quick.__name__}", "letters", lambda size: "bca" * (size // 3), quick)
    for quick in (len, list, sorted, choose)
]
