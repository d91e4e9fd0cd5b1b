"""A skill: a folder with a file SKILL.md, as the Agent Skills convention defines it."""

import hashlib
import re
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from ziggurat.core.codec import READING_TYPES
from ziggurat.core.errors import ConfigurationError, MissingExtra, ToolError

MAIN = "SKILL.md"
_NAME = re.compile("[a-z0-9]+(?:-[a-z0-9]+)*")
_TOOLS = re.compile(r"[^\s,()]+(?:\([^()]*\))?")
"""A tool, perhaps with what it may be used for, such as ``Bash(git log:*)``."""
_MOST_HEADER = 65_536
_MOST_FILE = 1_048_576
"""The bytes of a file that are read."""
_MOST_FILES = 1_000


class _Header(Struct, rename="kebab"):
    name: Annotated[str, Meta(min_length=1, max_length=64)]
    description: Annotated[str, Meta(min_length=1, max_length=1024)]
    license: str = ""
    compatibility: Annotated[str, Meta(max_length=500)] = ""
    metadata: dict[str, Any] = {}
    allowed_tools: str | list[str] = ""


class Skill(Struct, frozen=True, kw_only=True):
    """Instructions for a kind of task.

    Attributes:
        name: 1 to 64 lower-case letters, digits and single hyphens; that of the folder.
        description: The purpose of the skill, and when to use it; for the model.
        instructions: The text of SKILL.md after its header.
        folder: The folder with further files, such as `references/`, `scripts/` and `assets/`; None if there is none.
        compatibility: The environment that the skill needs.
        metadata: Further values as text; lists are joined by commas, and values that contain others are left out.
        allowed_tools: The tools that the author names, such as ``Bash(git log:*)``. They give no permission.
        digest: SHA-256 of all files, in hexadecimal digits.
    """

    name: str
    description: str
    instructions: str = ""
    folder: Path | None = None
    license: str = ""
    compatibility: str = ""
    metadata: dict[str, str] = {}
    allowed_tools: tuple[str, ...] = ()
    digest: str = ""

    @property
    def version(self) -> str:
        """The version in the metadata, or 0.1.0."""
        return self.metadata.get("version", "0.1.0")

    @property
    def author(self) -> str:
        """The author in the metadata, or an empty text."""
        return self.metadata.get("author", "")

    @property
    def capabilities(self) -> tuple[str, ...]:
        """The capabilities in the metadata, separated by commas; if there are none, the words of the name."""
        named = [each.strip() for each in self.metadata.get("capabilities", "").split(",")]
        return tuple(each for each in named if each) or tuple(self.name.split("-"))

    @property
    def files(self) -> tuple[str, ...]:
        """The names of all other files, relative to the folder, sorted."""
        return () if self.folder is None else tuple(name for name in _files(self.folder) if name != MAIN)

    def read(self, file: str = MAIN) -> str:
        """Return the text of a file of the skill.

        Raises:
            ToolError: there is no such file in the folder, it is not text, or it is larger than 1 MiB.
        """
        if file == MAIN or self.folder is None:
            if file != MAIN:
                raise ToolError(f"the skill {self.name} has no files")
            return self.instructions
        path = self.folder / file
        try:
            # Resolved: neither "..", an absolute path nor a symbolic link may lead out of the folder.
            if not path.is_file() or not path.resolve().is_relative_to(self.folder.resolve()):
                names = ", ".join(self.files) or "none"
                raise ToolError(f"the skill {self.name} has no file {file!r}; its files: {names}")
            if path.stat().st_size > _MOST_FILE:
                raise ToolError(f"{file} is larger than {_MOST_FILE:,} bytes")
            return path.read_text(encoding="utf-8")
        except OSError as error:
            raise ToolError(f"{file:.100} cannot be read: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise ToolError(f"{file} is not a text file") from error


def load_skill(folder: str | Path) -> Skill:
    folder = Path(folder)
    path = folder / MAIN
    try:
        # A pipe would never end, and what is outside of the folder would be missing in the digest.
        if path.exists() and MAIN not in _files(folder):
            raise ConfigurationError(f"{path}: it must be a file in the folder of the skill")
        if path.stat().st_size > _MOST_FILE:
            raise ConfigurationError(f"{path}: larger than {_MOST_FILE:,} bytes")
        text, digest = path.read_text(encoding="utf-8-sig"), digest_of(folder)
    except OSError as error:
        raise ConfigurationError(f"{path}: the skill cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{path}: not UTF-8") from error
    except UnicodeEncodeError as error:
        raise ConfigurationError(f"{folder}: the name of a file is not UTF-8") from error
    header, body = _header_of(text, path)
    name, description = header.name, " ".join(header.description.split())
    if not _NAME.fullmatch(name):
        raise ConfigurationError(f"{path}: name: lower-case letters, digits and single hyphens, not {name!r}")
    if name != folder.resolve().name:
        raise ConfigurationError(f"{path}: the name {name!r} differs from that of the folder")
    if not description:
        raise ConfigurationError(f"{path}: the description is empty")
    tools = header.allowed_tools
    allowed = _TOOLS.findall(tools) if isinstance(tools, str) else tools
    return Skill(
        name=name,
        description=description,
        instructions=body.strip(),
        folder=folder,
        license=header.license,
        compatibility=header.compatibility,
        metadata={key: _text_of(value) for key, value in header.metadata.items() if not isinstance(value, dict)},
        allowed_tools=tuple(allowed),
        digest=digest,
    )


def digest_of(folder: Path) -> str:
    total = hashlib.sha256()
    for name in _files(folder):
        with (folder / name).open("rb") as file:
            total.update(f"{len(name)} {name} {hashlib.file_digest(file, 'sha256').hexdigest()}\n".encode())
    return total.hexdigest()


def _text_of(value: object) -> str:
    # Nothing nested: with aliases, some lines of YAML stand for values of any size.
    if isinstance(value, list):
        return ", ".join(str(each) for each in value if not isinstance(each, list | dict))
    return str(value)


def _files(folder: Path) -> list[str]:
    """Return the names of the files of a folder, sorted; links that lead out of it are left out."""
    inside = folder.resolve()
    found = [
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.is_file() and path.resolve().is_relative_to(inside)
    ]
    if len(found) > _MOST_FILES:
        raise ConfigurationError(f"{folder}: more than {_MOST_FILES:,} files")
    return sorted(found)


def _header_of(text: str, path: Path) -> tuple[_Header, str]:
    parts = re.match(r"---[ \t]*\r?\n(.*?)^---[ \t]*(?:\r?\n|\Z)(.*)\Z", text, re.DOTALL | re.MULTILINE)
    if parts is None:
        raise ConfigurationError(f"{path}: it must begin with YAML between two lines of ---")
    if len(parts[1]) > _MOST_HEADER:
        raise ConfigurationError(f"{path}: its YAML is longer than {_MOST_HEADER:,} characters")
    try:
        with READING_TYPES:
            return msgspec.yaml.decode(parts[1], type=_Header), parts[2]
    except ImportError as error:
        raise MissingExtra("reading a SKILL.md", "skills") from error
    except Exception as error:  # PyYAML raises nearly anything for a date or a number that is none
        raise ConfigurationError(f"{path}: its YAML: {error}") from error
