"""What an application is told at its start. Import-light: the command line takes its defaults from here."""

from __future__ import annotations

from attrs import field, frozen

from infernix_core.engine.options import MIB
from infernix_core.errors import InvalidOption, Location
from infernix_core.interfaces.tools import ToolConstraints


def _key(value: str | None) -> str | None:
    """A key that a header can carry; a file's line end comes along easily."""
    if value is None:
        return None
    key = value.strip()
    where = Location(field="api_key")
    if not key:
        raise InvalidOption("the API key is empty", location=where)
    if any(ord(character) < 0x20 or ord(character) == 0x7F for character in key):
        raise InvalidOption(
            "the API key holds a control character", location=where, hint="no header can carry it"
        )
    return key


@frozen
class ServerOptions:
    """The options of one application.

    Attributes:
        max_request_bytes: Largest request body.
        api_key: What clients must present; ``None`` lets everybody in. /health needs none. Blanks around it are no
            part of it, as they are none of a header.
        drain_timeout: Seconds that running requests may go on when the application shuts down.
        tool_constraints: How much of a call is enforced where a request does not say.
    """

    max_request_bytes: int = 32 * MIB
    api_key: str | None = field(default=None, converter=_key)
    drain_timeout: float = 30.0
    tool_constraints: ToolConstraints = ToolConstraints.BASIC
