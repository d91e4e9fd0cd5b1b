"""Quirks of how a reply ends and of its usage: finish reasons, last events, errors, usage."""

from tests.provider.catalogue import quirk_maker
from tests.provider.frames import TOKENS, Frames, each_object, every_object, objects_of
from ziggurat.testing.server.loopback import ReceivedRequest, Wait
from ziggurat.testing.server.quirk import Quirk
from ziggurat.wires.types import Json, ResponseChunk, error_body, error_frame


@quirk_maker("body")
def unknown_finish(value: str = "galactic_reset") -> Quirk:
    """Sends an unknown finish reason.

    Good client: keeps the message and reports the reason as "other".
    """

    def change(data: Json, frame: ResponseChunk, seen: ReceivedRequest) -> None:
        for part in every_object(data):
            for key in ("finish_reason", "stop_reason"):
                if isinstance(part.get(key), str):
                    part[key] = value
            if part.get("object") == "response" and part.get("status") != "in_progress":
                part["status"] = value

    return each_object(change)


@quirk_maker("stream")
def no_finish() -> Quirk:
    """Sends no finish reason, but ends the stream correctly.

    Good client: treats it as complete if the format's last event arrived, and only then.
    """

    def change(data: Json, frame: ResponseChunk, seen: ReceivedRequest) -> None:
        for part in every_object(data):
            for key in ("finish_reason", "stop_reason"):
                if key in part:
                    part[key] = None

    return each_object(change)


@quirk_maker("stream")
def no_done() -> Quirk:
    """Omits the last event of a stream: ``[DONE]``, or message_stop.

    Good client: treats it as complete, as a finish reason had arrived, or reports an interrupted stream.
    """
    return Quirk(frames=lambda frames, _: [each for each in frames if isinstance(each, Wait) or each.part != "done"])


@quirk_maker("cut")
def no_end() -> Quirk:
    """Ends a stream cleanly after the content: no finish reason, no last event, no error.

    Good client: raises an interrupted-stream error with the partial reply.
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
    """Sends no usage.

    Good client: reports the usage as unknown, not as 0.
    """

    def frames(frames: Frames, seen: ReceivedRequest) -> Frames:
        for _, data in objects_of(frames):
            for part in every_object(data):
                part.pop("usage", None)
        return [each for each in frames if isinstance(each, Wait) or each.part != "usage"]

    return Quirk(frames=frames)


@quirk_maker("body")
def negative_usage(tokens: int = -1) -> Quirk:
    """Sends this number as every token count.

    Good client: ignores it: a budget never grows by spending.
    """

    def change(data: Json, frame: ResponseChunk, seen: ReceivedRequest) -> None:
        for part in every_object(data):
            part |= {key: tokens for key in TOKENS if key in part}

    return each_object(change)


@quirk_maker("body")
def usage_everywhere() -> Quirk:
    """Sends the cumulative usage with every event of a stream.

    Good client: uses the last one and adds up none.
    """

    def frames(frames: Frames, seen: ReceivedRequest) -> Frames:
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
    """Sends an error after a status of 200: in a stream after this many events, else as the body.

    Good client: raises an error of that kind with the partial reply; does not treat it as complete.
    """

    def frames(frames: Frames, seen: ReceivedRequest) -> Frames:
        if not seen.stream:
            return [ResponseChunk(error_body(seen.wire, 529, message, code), part="error")]
        sent: Frames = []
        for frame in frames:
            if isinstance(frame, ResponseChunk) and sum(isinstance(each, ResponseChunk) for each in sent) >= after:
                break
            sent.append(frame)
        return [*sent, error_frame(seen.wire, 529, message, code)]

    return Quirk(frames=frames, breaks=True)
