"""Run the DMTF's protocol validator with the assertions on event streams that it contains and never runs.

redfish-protocol-validator 1.3.2 sets the address of the stream to None in its discovery, so that 13 assertions SERV_SSE_* and one on
ending a session end as NOT_TESTED. Here discovery goes on to open the stream that the EventService names, and a stream that is silent
ends the validator's window of three seconds instead of its run. The command line and the exit code are the validator's.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import requests
from redfish_protocol_validator import console_scripts, resources, utils
from redfish_protocol_validator.constants import RequestType


def with_stream(discover: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
    """Extend the discovery by the open stream."""

    def resources_and_stream(sut: Any, uri: str = "/redfish/v1/", uris: Any = None) -> Iterator[Any]:
        yield from discover(sut, uri=uri, uris=uris)
        root = utils.get_response_json(sut.get("/redfish/v1/"))
        service = root.get("EventService", {}).get("@odata.id")
        stream = utils.get_response_json(sut.get(service)).get("ServerSentEventUri") if service else None
        if not stream:
            return
        sut.set_server_sent_event_uri(stream)
        response, destination = utils.get_sse_stream(sut)
        if destination:
            sut.set_event_dest_uri(destination)
        if response is not None:
            yield {"uri": stream, "response": response, "request_type": RequestType.STREAMING}

    return resources_and_stream


def until_silent(read: Callable[[Any], Iterator[Any]]) -> Callable[[Any], Iterator[Any]]:
    """Take the time-out of a silent stream as the end of what it has to say."""

    def read_until_silent(client: Any) -> Iterator[Any]:
        try:
            yield from read(client)
        except requests.exceptions.RequestException as error:
            sys.stderr.write(f"the stream fell silent: {type(error).__name__}\n")

    return read_until_silent


if __name__ == "__main__":
    resources.get_default_resources = with_stream(resources.get_default_resources)
    utils.SSEClientTimeout._read = until_silent(utils.SSEClientTimeout._read)
    console_scripts.main()
