"""Texts that PostgreSQL can keep: any but those with a NUL, which JSON and URLs can carry."""

from typing import Annotated, Any

from pydantic import AfterValidator, StringConstraints

Text = Annotated[str, StringConstraints(pattern=r"^[^\x00]*$")]
"""A text without NUL."""


def has_nul(value: object) -> bool:
    """Tell whether a text with a NUL is anywhere in what was read from JSON."""
    match value:
        case str():
            return "\0" in value
        case list():
            return any(map(has_nul, value))
        case dict():
            return any(has_nul(part) for item in value.items() for part in item)
    return False


def _without_nul(value: dict[str, Any]) -> dict[str, Any]:
    if has_nul(value):
        raise ValueError("a text has a NUL")
    return value


Object = Annotated[dict[str, Any], AfterValidator(_without_nul)]
"""A JSON object whose texts have no NUL."""
