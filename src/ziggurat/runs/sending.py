"""Sending: events, messages and requests go to a run from outside, whoever drives it, checked where they are sent."""

from ziggurat.calls.inbox import Inbox
from ziggurat.core import errors
from ziggurat.core.clock import new_id
from ziggurat.core.codec import as_type, decode, encode
from ziggurat.core.event import warn_once
from ziggurat.core.path import previous_id
from ziggurat.core.settings import NonEmptyText
from ziggurat.core.similar import similar
from ziggurat.journal.entries import RedactEntry, Result
from ziggurat.journal.store import UNFINISHED, LogInfo, Store
from ziggurat.messages import posted
from ziggurat.messages.agent import Answer, PendingItem
from ziggurat.messages.conversation import Verb
from ziggurat.messages.message import Message
from ziggurat.messages.prompts import Prompt, user_messages
from ziggurat.runs.options import Environment, RunId
from ziggurat.runs.runs import Runs, runs_of
from ziggurat.runs.waking import waits_of
from ziggurat.tools.decisions import awaited_in, fitting


async def send(
    run_id: RunId,
    name: NonEmptyText,
    value: object = None,
    *,
    store: str | Store,
    key: NonEmptyText | None = None,
    environment: Environment | None = None,
) -> bool:
    """Send an event to a run, which waits for it with `event` or will; return whether it is new.

    ::

        await send("order-17", "paid", Payment(30), store="postgresql://...", key=payment.id)

    It is stored with the run until the flow takes it, whichever process drives the run. A run that is suspended goes on
    by a worker or `recover`, or when it is resumed.

    Args:
        run_id: The id of the run.
        name: The name of the event.
        value: What it brings; it has a JSON form.
        store: Where the run is kept.
        key: Identifies it: an event of this name with the same key is sent once, to a run and to the one as which that
            continues as new. By default each is another one.
        environment: Its clock tells when the event was sent, which decides if it came in time.

    Raises:
        RunNotFound: the store has no such run.
        ConfigurationError: the run is suspended and waits for an event of this name with another type of value, it has
            ended, or the value has no JSON form. Nothing is sent then.
        MailboxFull: it has more than 4 MiB, or nothing has taken 100,000 items that the run was sent. Nothing is sent
            then.
    """
    return await send_to(runs_of(store), run_id, name, value, key, environment)


async def send_to(
    runs: Runs, run_id: str, name: str, value: object, key: str | None, environment: Environment | None
) -> bool:
    if not name:
        raise errors.ConfigurationError(f"an event that is sent to {run_id!r} has a name, a text that is not empty")
    try:
        data = encode(posted.PostedEvent(name, value, (environment or Environment()).clock.now()), strict=True)
    except TypeError as error:
        raise errors.ConfigurationError(f"the value of the event {name!r} must have a JSON form: {error}") from error
    title = posted.PostedEvent.key(name, new_id() if key is None else key)
    info = await _find(runs, run_id)
    run_id, wrong = info.id, None
    if key is not None and await _was_taken_before(runs, run_id, title):
        return False
    if info.status not in UNFINISHED:
        wrong = f"the run {run_id!r} has ended ({info.status}), and takes no event any more"
    elif info.status == "Suspended":
        awaited = [item for item in await waits_of(runs, info) if item.stage == "event"]
        _warn_of_name(awaited, name, run_id)
        unfit = _misfit(awaited, name, decode(data, posted.PostedEvent).value)
        wrong = unfit and f"the event {name!r} does not fit what the run {run_id!r} waits for: {unfit}"
    if wrong is None:
        new = await runs.post(run_id, title, data)
        # It may continue as new meanwhile, and so may the next run: each passes on what it has not taken by then.
        while (later := await runs.find(info.next_id)) is not None and not await _has_taken(runs, info.id, title):
            await runs.post(later.id, title, data)
            info = later
        return new
    if key is not None and any(item.key == title for item in await runs.inbox(run_id)):
        return False  # it was sent when it did fit
    raise errors.ConfigurationError(wrong)


async def _was_taken_before(runs: Runs, run_id: str, key: str) -> bool:
    """Return whether the run that a run continues as new has taken an item."""
    before = await runs.find(previous_id(run_id))
    if before is None or before.status != "Continued":
        return False
    return any(item.key == key for item in await runs.inbox(before.id)) and await _has_taken(runs, before.id, key)


async def _has_taken(runs: Runs, run_id: str, key: str) -> bool:
    try:
        journal = await runs.read(run_id)
    except errors.RunNotFound:  # it was deleted or, without a store, has ended
        return False
    inbox = Inbox(runs, run_id, journal, lambda *_: True)
    return key not in {item.key for item in await inbox.untaken()}


def _warn_of_name(awaited: list[PendingItem], name: str, run_id: str) -> None:
    """Warn once of an event whose name, but for its digits, resembles one that is waited for; it may be for later."""
    names = {awaited_in(item.call).event for item in awaited}
    digits = str.maketrans("", "", "0123456789")
    near = [each for each in similar(name, names) if each.translate(digits) != name.translate(digits)]
    if name not in names and near:
        warn_once(f"the run {run_id!r} waits for the event {near[0]!r}; {name!r}, which was sent, is stored for later")


def _misfit(awaited: list[PendingItem], name: str, value: object) -> str | None:
    """Return why a value fits none of the waits for an event, None if it does, nothing waits, or it cannot be said."""
    wrong: str | None = None
    for item in awaited:
        if awaited_in(item.call).event != name:
            continue
        try:
            fitting(item, Answer(value), None)
        except errors.InvalidArguments as error:
            wrong = str(error)
        except errors.MissingExtra:  # it is checked when it is taken
            return None
        else:
            return None
    return wrong


async def post_cancel(runs: Runs, run_id: str, after_step: bool) -> bool:
    """Ask whoever drives a run to stop it; return whether it was in progress or waiting, so that this was sent."""
    info = await _find(runs, run_id)
    # Asked for again before the run has gone on, it is the same, so that nobody can fill the inbox with it.
    return await _post(runs, info, f"cancel {info.count} {after_step}", posted.PostedCancel(info.count, after_step))


async def post_messages(
    runs: Runs,
    run_id: str,
    verb: Verb,
    prompt: Prompt,
    screen: RedactEntry | None = None,
    whole: list[tuple[tuple[Message, ...], ...]] | None = None,
) -> bool:
    """Send messages for the model to a run; return whether it was in progress or waiting, so that they were sent."""
    # They are stored until the run takes them, after `screen` has removed what must not be stored; a run that is driven
    # here has that as well.
    messages = given = user_messages(prompt, verb)
    if screen is not None and isinstance(screened := screen(Result("", verb, None, messages)), Result):
        messages = as_type(screened.value, tuple[Message, ...])
    if whole is not None:
        whole.append((messages, given))
    return await _post(runs, await _find(runs, run_id), f"{verb} {new_id()}", posted.PostedMessages(verb, messages))


async def _find(runs: Runs, run_id: str) -> LogInfo:
    info = await runs.newest(run_id)
    if info is None:
        raise errors.RunNotFound(f"there is no run {run_id!r}")
    return info


async def _post(runs: Runs, info: LogInfo, key: str, content: posted.PostedCancel | posted.PostedMessages) -> bool:
    # The state of one that is driven is the old one until it has recorded more.
    if not runs.is_driven(info) and info.status not in ("running", "Suspended"):
        return False
    await runs.post(info.id, key, encode(content))
    return True
