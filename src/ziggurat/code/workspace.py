"""The workspace of an agent: tools for files, which are in a folder or on the record of the run."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from weakref import WeakKeyDictionary

from ziggurat.calls.agent_call import AGENT_CALL, AgentCall
from ziggurat.calls.step import step
from ziggurat.core.context import Context
from ziggurat.core.errors import ConfigurationError, ToolError
from ziggurat.core.similar import similar
from ziggurat.journal.journal import journal_of
from ziggurat.messages.model import Effect
from ziggurat.sandbox.command import Shell
from ziggurat.sandbox.files import (
    CHANGE,
    MAX_FILES,
    Edit,
    FileChange,
    FolderFiles,
    RunFiles,
    checked_text,
    clean_path,
)
from ziggurat.tools.function import FunctionTool, tool
from ziggurat.tools.validator import SchemaValidator

OF_RUN = ".run/"  # the beginning of the paths that are on the record of the run, also where the files are in a folder
MAX_SHOWN = 20_000  # characters of one result
MAX_LINE = 1_000  # characters of one line of a result
MAX_FOUND = 200  # lines or paths of one result
MAX_SEARCHED = 2**27  # characters that one search reads: its thread cannot be stopped


class Workspace:
    """Files for an agent, as six tools: `ls`, `read_file`, `write_file`, `edit_file`, `glob` and `grep`.

    ::

        workspace = Workspace("project/")
        agent = Agent(model, tools=[*workspace.tools])

    Without a folder the files are on the record of the run: all agents of the run share them, a run that is resumed or
    forked has those that it had by then, and ``await agent.files(run_id)`` returns those that it wrote. With a folder
    they are the files in it, and stay there. Files below ``.run/`` are on the record in both cases.

    Paths are below one root: no path, and no link, leads out of it. Files are text of at most 10 MiB.

    Args:
        folder: The folder; None for files on the record.
        files: The files with which each run begins, by path; only without a folder.
        read_only: Whether agents may only read; there are four tools then.
        shell: Runs commands in the folder, with the tool `execute`; by default there is none.

    Raises:
        ConfigurationError: there is no such folder, or a path or text in `files` is not allowed.
    """

    passed_as = "workspace = Workspace(...), tools=[*workspace.tools]"
    """How it is given to an agent, for errors."""

    def __init__(
        self,
        folder: str | Path | None = None,
        *,
        files: Mapping[str, str] | None = None,
        read_only: bool = False,
        shell: Shell | None = None,
    ) -> None:
        if shell is not None and (folder is None or read_only):
            raise ConfigurationError("commands need a folder in which they may write: Workspace(folder, shell=...)")
        if folder is not None and files:
            raise ConfigurationError("a workspace has the files of a folder, or those in files=; give one of them")
        self.shell = shell
        self.folder: FolderFiles | None = None if folder is None else FolderFiles(folder)
        try:
            self.first: dict[str, str] = {clean_path(path): checked_text(text) for path, text in (files or {}).items()}
        except ToolError as error:
            raise ConfigurationError(f"files= of a workspace: {error}") from None
        self.read_only = read_only
        self._change_record = step(name=CHANGE, effect="none", context=True)(self._record_of)
        self._runs: WeakKeyDictionary[AgentCall, RunFiles] = WeakKeyDictionary()

    @property
    def tools(self) -> tuple[FunctionTool, ...]:
        """The tools, for ``Agent(tools=[*workspace.tools])``."""
        reading = (self._ls, self._read_file, self._glob, self._grep)
        writing = () if self.read_only else (self._write_file, self._edit_file)
        running = () if self.shell is None else (self._execute,)
        effect: Effect = "repeatable" if self.folder is not None else "none"
        return (
            *(tool(name=each.__name__[1:], effect="none")(each) for each in reading),
            *(tool(name=each.__name__[1:], effect=effect)(each) for each in (*writing, *running)),
        )

    async def write(self, path: str, text: str, ctx: Context) -> bool:
        """Create or replace a file, in a tool, a hook or a flow; return whether it is new; raises ToolError."""
        return (await self._change(Edit(clean_path(path), checked_text(text)))).new

    async def _change(self, edit: Edit) -> FileChange:
        if not edit.path:
            raise ToolError("the path names no file", kind="invalid_arguments")
        if self.folder is not None and not edit.path.startswith(OF_RUN):
            return await asyncio.to_thread(self.folder.change, edit)
        return await self._change_record(edit)

    async def _record_of(self, ctx: Context, edit: Edit) -> FileChange:
        """Return the change to record: a call that is made again finds it there, rather than to make it twice."""
        files = self._of_run(ctx)
        change = edit.applied(files.get(edit.path))
        if change.new and len(files) >= MAX_FILES:
            raise ToolError(f"there are {MAX_FILES} files already", kind="permanent")
        return change

    def read(self, path: str, ctx: Context) -> str:
        """Return the text of a file, in a tool, a hook or a flow; raises ToolError if there is none."""
        path = clean_path(path)
        text = self.text_of(path, ctx)
        if text is None:
            above, slash, _ = path.rpartition("/")
            there = () if self.folder is None else self.folder.names(above)
            near = similar(path, [*self._of_run(ctx), *(f"{above}{slash}{name}" for name, _ in there)], 3)
            hint = f"; did you mean {', '.join(near)}?" if near else "; ls lists the files"
            raise ToolError(f"there is no file {path!r}{hint}", kind="not_found")
        return text

    def text_of(self, path: str, ctx: Context) -> str | None:
        """Return the text of a file, None if there is none."""
        if self.folder is not None and not path.startswith(OF_RUN):
            return self.folder.read(path)
        return self._of_run(ctx).get(path)

    async def _paths(self, ctx: Context) -> list[str]:
        own = sorted(self._of_run(ctx))
        return own if self.folder is None else [*own, *await asyncio.to_thread(self.folder.paths)]

    def _of_run(self, ctx: Context) -> RunFiles:
        run = ctx.scope[AGENT_CALL].outermost
        if run not in self._runs:
            self._runs[run] = RunFiles(self.first)
        return self._runs[run].take_in(journal_of(ctx).entries)

    # -- tools -----------------------------------------------------------------------------------------------------

    async def _ls(self, ctx: Context, path: str = "") -> str:
        """List the files in a folder, and the folders in it, each with a slash at its end.

        Args:
            path: The folder; the root by default.
        """
        below = clean_path(path)
        start = f"{below}/" if below else ""
        inside = [each[len(start) :] for each in self._of_run(ctx) if each.startswith(start)]
        names = {name + (slash and "/") for name, slash, _ in (each.partition("/") for each in inside)}
        if self.folder is not None:
            there = await asyncio.to_thread(self.folder.names, below)
            names |= {f"{name}/" if is_folder else name for name, is_folder in there}
        if not names:
            return f"There are no files in {below or 'the root'}."
        return _listed(sorted(names))

    async def _read_file(self, path: str, ctx: Context, offset: int = 1, limit: int = 500) -> str:
        """Read a text file, or some lines of it.

        Args:
            path: The file.
            offset: The first line, from 1.
            limit: How many lines at most.
        """
        lines = self.read(path, ctx).splitlines()
        start = max(offset, 1)
        shown = _fitting(map(_short, lines[start - 1 : start - 1 + max(limit, 1)]))
        end = start + len(shown) - 1
        if not shown:
            return f"{path} has {len(lines)} lines; there is none from line {start} on."
        note = "" if start == 1 and end == len(lines) else f"\n[lines {start} to {end} of {len(lines)}]"
        return "\n".join(shown) + note

    async def _write_file(self, path: str, text: str, ctx: Context) -> str:
        """Create a file, or replace all of its text. Long conversations are shortened; files stay.

        Args:
            path: The file; folders in its path are made.
            text: The whole text.
        """
        new = await self.write(path, text, ctx)
        return f"{'Created' if new else 'Replaced'} {clean_path(path)} ({len(text.splitlines())} lines)."

    async def _edit_file(self, path: str, old: str, new: str, ctx: Context, every: bool = False) -> str:
        """Replace a text in a file; nothing is changed unless it is found exactly.

        Args:
            path: The file.
            old: The text to replace, exactly as it is in the file, with enough lines to occur once.
            new: The text to put in its place.
            every: Whether to replace it wherever it occurs.
        """
        self.read(path, ctx)  # which names the files that there are
        count = (await self._change(Edit(clean_path(path), new, old, every))).places
        return f"Replaced {count} {'place' if count == 1 else 'places'} in {clean_path(path)}."

    async def _execute(self, command: str) -> str:
        """Run a command of a shell in the folder of the files. It has no network, and changes no other files.

        Args:
            command: The command, for /bin/sh.
        """
        assert self.shell is not None
        assert self.folder is not None
        done = await self.shell.run(command, self.folder.folder)
        end = done.error or (f"exit code {done.code}" if done.code else "")
        return "\n".join(filter(None, (done.output.rstrip(), end and f"[{end}]"))) or "It printed nothing."

    async def _glob(self, pattern: str, ctx: Context) -> str:
        """List the files whose paths match a pattern, such as src/**/*.py.

        Args:
            pattern: The pattern: * stands for a part of a name, ? for a character, and ** for any folders.
        """
        matches = _matcher(pattern)
        found = [path for path in await self._paths(ctx) if matches(path)]
        return _listed(found) if found else f"No path matches {pattern!r:.200}."

    async def _grep(self, text: str, ctx: Context, files: str = "**", regex: bool = False) -> str:
        """Search the lines of files for a text.

        Args:
            text: The text to search for, in the case given.
            files: A pattern of the paths to search, such as **/*.md; all by default.
            regex: Whether the text is a regular expression.
        """
        holds = _searcher(text, regex=regex)
        matches = _matcher(files)
        paths = [path for path in await self._paths(ctx) if matches(path)]
        found = await asyncio.to_thread(self._search, paths, holds, ctx)
        return _listed(found) if found else f"No line has {text!r:.200}."

    def _search(self, paths: Sequence[str], holds: Callable[[str], bool], ctx: Context) -> list[str]:
        found: list[str] = []
        searched = 0
        for path in paths:
            try:
                text = self.text_of(path, ctx) or ""
            except ToolError:  # not a text file
                continue
            searched += len(text)
            if searched > MAX_SEARCHED:
                return [*found, f"[the search ended before {path}; choose fewer files]"]
            numbered = enumerate(text.splitlines(), 1)
            found += [f"{path}:{number}: {_short(line)}" for number, line in numbered if holds(line)]
            if len(found) > MAX_FOUND:
                break
        return found

    def __repr__(self) -> str:
        return "Workspace()" if self.folder is None else f"Workspace({str(self.folder.folder)!r})"


def _short(line: str) -> str:
    return line if len(line) <= MAX_LINE else f"{line[:MAX_LINE]}… [{len(line) - MAX_LINE} more characters]"


def _fitting(lines: Iterable[str]) -> list[str]:
    """Return the first of some lines, as many as a result has room for."""
    shown, size = list[str](), 0
    for line in lines:
        size += len(line) + 1
        if size > MAX_SHOWN:
            break
        shown.append(line)
    return shown


def _listed(lines: Sequence[str]) -> str:
    shown = _fitting(lines[:MAX_FOUND])
    more = "" if len(shown) == len(lines) else "\n[there are more; narrow the search]"
    return "\n".join(shown) + more


def _searcher(text: str, *, regex: bool) -> Callable[[str], bool]:
    """Return whether a line has a text; regular expressions are matched in linear time."""
    if not text:
        raise ToolError("there is no text to search for", kind="invalid_arguments")
    if not regex:
        return lambda line: text in line
    try:
        validator = SchemaValidator({"type": "string", "pattern": text}, "the pattern")
    except ConfigurationError as error:
        raise ToolError(f"the regular expression is not valid: {error}", kind="invalid_arguments") from None
    return lambda line: not validator.problems(line)


def _matcher(pattern: str) -> Callable[[str], bool]:
    """Return whether a path matches a pattern, in time that grows with the product of their lengths."""
    wanted = clean_path(pattern).split("/")

    def matches(path: str) -> bool:
        names = path.split("/")
        reached = [True, *[False] * len(names)]  # for each number of names, whether the pattern so far matches them
        for part in wanted:
            if part == "**":
                for number in range(1, len(reached)):
                    reached[number] = reached[number] or reached[number - 1]
            else:
                reached = [False, *(was and fnmatchcase(name, part) for was, name in zip(reached, names, strict=False))]
        return reached[-1]

    return matches
