"""Quirks of how a reply ends and of its usage: finish reasons, last events, errors, usage."""

__all__ = [
    "error_event",
    "negative_usage",
    "no_done",
    "no_end",
    "no_finish",
    "no_usage",
    "unknown_finish",
    "usage_everywhere",
]

from ziggurat.testing.server.error_bodies import error_body, error_frame
from ziggurat.testing.server.frames import TOKENS, Frames, each_object, every_object, objects_of
from ziggurat.testing.server.quirk import Quirk, quirk_maker
from ziggurat.testing.server.types import Frame, Json, Seen, Wait


@quirk_maker("body")
def unknown_finish(value: str = "galactic_reset") -> Quirk:
    """A reason for stopping that nobody knows.

    Good client: keeps the message and says that the reason is another one.
    """

    def change(data: Json, frame: Frame, seen: Seen) -> None:
        for part in every_object(data):
            for key in ("finish_reason", "stop_reason"):
                if isinstance(part.get(key), str):
                    part[key] = value
            if part.get("object") == "response" and part.get("status") != "in_progress":
                part["status"] = value

    return each_object(change)


@quirk_maker("stream")
def no_finish() -> Quirk:
    """No reason for stopping is ever given, but the stream ends as it should.

    Good client: takes it for finished if its format's last event came, and only then.
    """

    def change(data: Json, frame: Frame, seen: Seen) -> None:
        for part in every_object(data):
            for key in ("finish_reason", "stop_reason"):
                if key in part:
                    part[key] = None

    return each_object(change)


@quirk_maker("stream")
def no_done() -> Quirk:
    """A stream without its very last event: ``[DONE]``, or message_stop.

    Good client: takes it for finished, as a reason for stopping had come, or says that it was interrupted.
    """
    return Quirk(frames=lambda frames, _: [each for each in frames if isinstance(each, Wait) or each.part != "done"])


@quirk_maker("cut")
def no_end() -> Quirk:
    """A stream that stops politely after what is said: no reason for stopping, no last event, no error.

    Good client: raises that the stream was interrupted, with what had come.
    """
    ends = ("finish", "usage", "done")
    return Quirk(
        frames=lambda frames, seen: [
            each for each in frames if not seen.stream or isinstance(each, Wait) or each.part not in ends
        ],
        breaks=True,
    )


@quirk_maker("body")
def no_usage() -> Quirk:
    """No usage anywhere.

    Good client: says that the usage is unknown, not that it was 0.
    """

    def frames(frames: Frames, seen: Seen) -> Frames:
        for _, data in objects_of(frames):
            for part in every_object(data):
                part.pop("usage", None)
        return [each for each in frames if isinstance(each, Wait) or each.part != "usage"]

    return Quirk(frames=frames)


@quirk_maker("body")
def negative_usage(tokens: int = -1) -> Quirk:
    """Every count of tokens is this.

    Good client: does not count it: a budget never grows by spending.
    """

    def change(data: Json, frame: Frame, seen: Seen) -> None:
        for part in every_object(data):
            part |= {key: tokens for key in TOKENS if key in part}

    return each_object(change)


@quirk_maker("body")
def usage_everywhere() -> Quirk:
    """Every event of a stream carries the usage so far; each stands for all before it.

    Good client: takes the last and adds up none.
    """

    def frames(frames: Frames, seen: Seen) -> Frames:
        if not seen.stream:
            return frames
        deltas = [data for frame, data in objects_of(frames) if frame.part == "delta"]
        for at, data in enumerate(deltas, 1):
            share = {"total_tokens": 2 * at} if seen.wire != "messages" else {}
            if seen.wire == "chat":
                data["usage"] = {"prompt_tokens": at, "completion_tokens": at, **share}
            else:
                data["usage"] = {"input_tokens": at, "output_tokens": at, **share}
        return frames

    return Quirk(frames=frames)


@quirk_maker("stream")
def error_event(after: int = 2, message: str = "Overloaded", code: str = "overloaded_error") -> Quirk:
    """An error after a status of 200: in a stream in place of what follows after so many events, else as the body.

    Good client: raises an error of the kind that it names, with what had come; nothing is finished.
    """

    def frames(frames: Frames, seen: Seen) -> Frames:
        if not seen.stream:
            return [Frame(error_body(seen.wire, 529, message, code), part="error")]
        kept: Frames = []
        for frame in frames:
            if isinstance(frame, Frame) and sum(isinstance(each, Frame) for each in kept) >= after:
                break
            kept.append(frame)
        return [*kept, error_frame(seen.wire, 529, message, code)]

    return Quirk(frames=frames, breaks=True)
