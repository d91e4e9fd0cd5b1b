"""Reading SKILL.md folders: those that follow the convention, and those that break a rule of it."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ziggurat import ConfigurationError, ToolError
from ziggurat.skills import Skill, Skills
from ziggurat.skills.skill import load_skill

DESCRIBED = "description: Fills forms."


def folder_with(tmp_path: Path, text: str | bytes, name: str = "pdf-forms") -> Path:
    folder = tmp_path / name
    folder.mkdir()
    (folder / "SKILL.md").write_bytes(text.encode() if isinstance(text, str) else text)
    return folder


@pytest.mark.parametrize(
    ("header", "field", "value"),
    [
        (DESCRIBED, "description", "Fills forms."),
        ("description: >\n  Fills\n  forms.", "description", "Fills forms."),
        ("description: |\n  Fills\n  forms.", "description", "Fills forms."),
        ('description: "Fills: forms"', "description", "Fills: forms"),
        ("description: Füllt Formulare aus.", "description", "Füllt Formulare aus."),
        ("description: " + "x" * 1024, "description", "x" * 1024),
        (f"{DESCRIBED}\nlicense: MIT", "license", "MIT"),
        (f"{DESCRIBED}\ncompatibility: Python 3.11", "compatibility", "Python 3.11"),
        (f"{DESCRIBED}\nmetadata:\n  version: 1.2", "version", "1.2"),
        (f"{DESCRIBED}\nmetadata:\n  author: Ada", "author", "Ada"),
        (DESCRIBED, "version", "0.1.0"),
        (DESCRIBED, "capabilities", ("pdf", "forms")),
        (f"{DESCRIBED}\nmetadata:\n  capabilities: fill forms, merge", "capabilities", ("fill forms", "merge")),
        (f"{DESCRIBED}\nmetadata:\n  capabilities: [fill, merge]", "capabilities", ("fill", "merge")),
        (f"{DESCRIBED}\nallowed-tools: Read Write", "allowed_tools", ("Read", "Write")),
        (f"{DESCRIBED}\nallowed-tools: Read, Write", "allowed_tools", ("Read", "Write")),
        (f"{DESCRIBED}\nallowed-tools:\n  - Read\n  - Write", "allowed_tools", ("Read", "Write")),
        (f"{DESCRIBED}\nallowed-tools: ''", "allowed_tools", ()),
        (f"{DESCRIBED}\nallowed-tools: Bash(git log:*), Read", "allowed_tools", ("Bash(git log:*)", "Read")),
        (f"{DESCRIBED}\nmodel: large\nhooks: [a]", "description", "Fills forms."),
    ],
)
def test_a_skill_has_the_fields_of_its_header(tmp_path: Path, header: str, field: str, value: object) -> None:
    for number, (start, body, line) in enumerate(
        [("", "", "\n"), ("\ufeff", "Read.", "\r\n"), ("", "a --- b\n---\nc", "\n")]
    ):
        (tmp_path / f"{number}").mkdir()
        text = f"{start}---\nname: pdf-forms\n{header}\n---\n{body}".replace("\n", line)
        skill = load_skill(folder_with(tmp_path / f"{number}", text))
        assert getattr(skill, field) == value
        assert skill.instructions == body


@pytest.mark.parametrize(
    ("text", "noun"),
    [
        ("", "---"),
        ("# PDF", "---"),
        ("name: pdf-forms\n---\n", "---"),
        ("---\nname: pdf-forms\n", "---"),
        (" ---\nname: pdf-forms\n---\n", "---"),
        ("---\n---\n", "object"),
        ("---\n- a\n---\n", "object"),
        ("---\njust text\n---\n", "object"),
        (f"---\n{DESCRIBED}\n---\n", "name"),
        ("---\nname: pdf-forms\n---\n", "description"),
        ("---\nname: pdf-forms\ndescription:\n---\n", "description"),
        ("---\nname: pdf-forms\ndescription: ''\n---\n", "description"),
        ("---\nname: pdf-forms\ndescription: '  '\n---\n", "description"),
        ("---\nname: pdf-forms\ndescription: [a]\n---\n", "description"),
        ("---\nname: pdf-forms\ndescription: " + "x" * 1025 + "\n---\n", "description"),
        (f"---\nname: 7\n{DESCRIBED}\n---\n", "name"),
        (f"---\nname: other\n{DESCRIBED}\n---\n", "folder"),
        (f"---\nname: PDF-forms\n{DESCRIBED}\n---\n", "lower-case"),
        (f"---\nname: pdf_forms\n{DESCRIBED}\n---\n", "lower-case"),
        (f"---\nname: pdf--forms\n{DESCRIBED}\n---\n", "hyphens"),
        (f"---\nname: -pdf\n{DESCRIBED}\n---\n", "hyphens"),
        (f"---\nname: pdf-\n{DESCRIBED}\n---\n", "hyphens"),
        (f"---\nname: {'x' * 65}\n{DESCRIBED}\n---\n", "name"),
        (f"---\nname: pdf-forms\n{DESCRIBED}\nmetadata: text\n---\n", "metadata"),
        (f"---\nname: pdf-forms\n{DESCRIBED}\nallowed-tools: 3\n---\n", "allowed-tools"),
        (f"---\nname: pdf-forms\n{DESCRIBED}\ncompatibility: {'x' * 501}\n---\n", "compatibility"),
        ("---\nname: pdf-forms\ndescription: a: b\n---\n", "SKILL.md"),
        ("---\nname: pdf-forms\ndescription: !!python/object:os.system x\n---\n", "SKILL.md"),
        *(
            (f"---\nname: pdf-forms\n{DESCRIBED}\nmetadata:\n  value: {value}\n---\n", "YAML")
            for value in ("2026-13-45", "!!float a", "!!int ''", "!!timestamp a", "!!bool a", "9" * 5000, "*a", "\0")
        ),
        (f"---\nname: pdf-forms\n{DESCRIBED}\nmetadata:\n  1: a\n---\n", "metadata"),
        (f"---\nname: pdf-forms\n{DESCRIBED}\nlicense: [MIT]\n---\n", "license"),
        (f"---\nname: pdf-forms\n{DESCRIBED}\n\tlicense: MIT\n---\n", "tab"),
        ("---\n" + "[" * 5000 + "\n---\n", "SKILL.md"),
        ("---\nname: x\n" + "a" * 70_000 + "\n---\n", "YAML"),
        (b"---\nname: \xff\n---\n", "UTF-8"),
        (f"---\nname: pdf-forms\n{DESCRIBED}\n---\n".encode("utf-16"), "UTF-8"),
        (b"x" * 1_100_000, "bytes"),
    ],
)
def test_a_skill_that_breaks_a_rule_is_skipped_with_the_rule(tmp_path: Path, text: str | bytes, noun: str) -> None:
    folder = folder_with(tmp_path, text)
    with pytest.raises(ConfigurationError, match=noun) as refused:
        load_skill(folder)
    assert_skipped(folder, str(refused.value))


def assert_skipped(folder: Path, reason: str) -> None:
    """The skill beside it stays usable."""
    folder_with(folder.parent, f"---\nname: beside\n{DESCRIBED}\n---\nDo it.", "beside")
    skills = Skills(folder.parent)
    assert [skill.name for skill in skills.all] == ["beside"]
    assert skills.skipped == {str(folder): reason}
    assert skills.compose(["beside"]) == "# beside\n\nDo it."


def without_main(folder: Path) -> None:
    (folder / "SKILL.md").unlink()


def with_a_link_out(folder: Path) -> None:
    (folder / "SKILL.md").rename(folder.parent / "outside.md")
    (folder / "SKILL.md").symlink_to(folder.parent / "outside.md")


def with_a_folder_for_main(folder: Path) -> None:
    without_main(folder)
    (folder / "SKILL.md").mkdir()


def with_a_pipe_for_main(folder: Path) -> None:
    without_main(folder)
    os.mkfifo(folder / "SKILL.md")


def with_a_name_in_bytes(folder: Path) -> None:
    (folder / os.fsdecode(b"\xff.md")).write_text("")


def with_too_many_files(folder: Path) -> None:
    for number in range(1_001):
        (folder / f"{number}.md").touch()


def within_another_folder(folder: Path) -> None:
    (folder / "inner").mkdir()
    (folder / "SKILL.md").rename(folder / "inner" / "SKILL.md")


def with_a_name_in_small_letters(folder: Path) -> None:
    (folder / "SKILL.md").rename(folder / "skill.md")


@pytest.mark.parametrize(
    ("change", "noun"),
    [
        (without_main, "No such file"),
        (with_a_link_out, "file in the folder"),
        (with_a_folder_for_main, "file in the folder"),
        (with_a_pipe_for_main, "file in the folder"),
        (with_a_name_in_bytes, "UTF-8"),
        (with_too_many_files, "1,000 files"),
        (within_another_folder, "No such file"),
        (with_a_name_in_small_letters, r"SKILL\.md"),
    ],
)
def test_a_folder_that_breaks_a_rule_is_skipped_with_the_rule(
    tmp_path: Path, change: Callable[[Path], None], noun: str
) -> None:
    folder = folder_with(tmp_path, f"---\nname: pdf-forms\n{DESCRIBED}\n---\nDo it.")
    change(folder)
    with pytest.raises(ConfigurationError, match=noun) as refused:
        load_skill(folder)
    assert_skipped(folder, str(refused.value))


def test_nested_metadata_is_left_out_however_large_it_would_be(tmp_path: Path) -> None:
    levels = [f"  a{n}: &a{n} [{', '.join([f'*a{n - 1}' if n else 'x'] * 9)}]" for n in range(20)]
    text = "\n".join(["---", "name: pdf-forms", DESCRIBED, "metadata:", *levels, "  deep: {author: Ada}", "---"])
    metadata = load_skill(folder_with(tmp_path, text)).metadata
    assert metadata == {"a0": ", ".join("x" * 9), **{f"a{n}": "" for n in range(1, 20)}}


def test_only_files_of_the_folder_can_be_read(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, f"---\nname: pdf-forms\n{DESCRIBED}\n---\nDo it.")
    (tmp_path / "secret.txt").write_text("secret")
    (folder / "references").mkdir()
    (folder / "references" / "fields.md").write_text("fields")
    (folder / "picture.png").write_bytes(b"\x89PNG\xff")
    (folder / "large.txt").write_bytes(b"x" * 1_100_000)
    (folder / "link.txt").symlink_to(tmp_path / "secret.txt")
    (folder / "out").symlink_to(tmp_path)
    (folder / "loop").symlink_to("loop")
    skill = load_skill(folder)
    assert skill.files == ("large.txt", "picture.png", "references/fields.md")
    assert (skill.read(), skill.read("references/fields.md")) == ("Do it.", "fields")
    outside = ("../secret.txt", "link.txt", "out/secret.txt", str(tmp_path / "secret.txt"), "references", "gone", "")
    for file in (*outside, "picture.png", "large.txt", "loop", "x" * 5_000, "a\0"):
        with pytest.raises(ToolError):
            skill.read(file)
    with pytest.raises(ToolError):
        Skill(name="a", description="b").read("file")


def test_the_digest_changes_with_every_name_and_byte(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, f"---\nname: pdf-forms\n{DESCRIBED}\n---\nDo it.")
    digests = [load_skill(folder).digest]
    for name, content in [("a.txt", "bc"), ("ab.txt", "c"), ("a.txt", "bd")]:
        (folder / name).write_text(content)
        digests.append(load_skill(folder).digest)
    assert len(set(digests)) == 4
