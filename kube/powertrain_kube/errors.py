"""What can go wrong with the API server, one type for each thing that a caller can do about it."""

from __future__ import annotations


class ApiError(Exception):
    """The API server refused; `words` are its own, the message also says what was asked."""

    def __init__(self, text: str, words: str = "", status: int = 0) -> None:
        super().__init__(text)
        self.words = words or text
        self.status = status


class AwayError(ApiError):
    """Nobody answered, or the server said that it can't right now: try again later."""


class TooLargeError(ApiError):
    """The answer is longer than the caller wants to keep: ask for fewer objects at a time."""


class NotFoundError(ApiError):
    """The object, or its kind, is not there."""


class GoneError(ApiError):
    """The server no longer remembers the version that a watch or a list wanted to go on from: list again."""


class ConflictError(ApiError):
    """The object is another one, or has another version, than was meant: look again."""


class AlreadyExistsError(ConflictError):
    """There is an object of that name."""


class InvalidError(ApiError):
    """The server can't accept such a body, now or later; its words say which field and why."""


class ForbiddenError(ApiError):
    """These credentials may not do that, or a policy of the cluster says no."""


def error_of(status: int, method: str, path: str, words: str, reason: str = "") -> ApiError:
    """Return the error that an answer stands for."""
    kind = _KINDS.get(status, AwayError if status >= 500 else ApiError)
    if status == 409 and reason == "AlreadyExists":
        kind = AlreadyExistsError
    return kind(f"{method} {path}: {status} {words}", words, status)


_KINDS: dict[int, type[ApiError]] = {
    400: InvalidError,
    401: ForbiddenError,
    403: ForbiddenError,
    404: NotFoundError,
    409: ConflictError,
    410: GoneError,
    422: InvalidError,
    429: AwayError,
}
