"""Errors: everything that Ziggurat raises, in one tree; see `core.errors`."""

from ziggurat.core.lazy import lazy

__getattr__, __dir__, __all__ = lazy(
    __name__,
    {
        "core.errors": (
            "AlreadyDecided",
            "CircuitOpen",
            "ConfigurationError",
            "ContextOverflow",
            "Denied",
            "EmptyPrompt",
            "ForeignError",
            "InvalidArguments",
            "JournalCorrupt",
            "JournalError",
            "JournalMismatch",
            "LeaseHeld",
            "LeaseLost",
            "LimitExceeded",
            "MissingExtra",
            "ModelError",
            "ModelErrorKind",
            "ModelRetry",
            "NotRepeatable",
            "ProcessLost",
            "RecordEnds",
            "RunExists",
            "RunNotFound",
            "ServiceError",
            "StoreError",
            "StoreUnavailable",
            "StreamInterrupted",
            "Suspend",
            "Timeout",
            "ToolError",
            "ToolErrorKind",
            "ZigguratError",
            "is_transient",
        ),
    },
)
