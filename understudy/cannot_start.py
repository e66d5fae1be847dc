"""Why a gateway cannot be built as configured."""


class CannotStart(Exception):
    """The gateway cannot be built as configured. The text says what to do about it."""
