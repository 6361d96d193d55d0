"""Requests whose head does not end: refused before they fill the memory. Bodies are limited in `middleware`."""

from __future__ import annotations

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

#: Bytes of a request but for its body: its address, its headers, and what a body in pieces is wrapped in.
LONGEST_HEAD = 65_536


class LimitedHeads(HttpToolsProtocol):
    """HTTP/1.1 as uvicorn speaks it, which by itself keeps whatever comes."""

    _head = _body = 0

    def data_received(self, data: bytes) -> None:
        self._body = 0
        super().data_received(data)
        self._head += len(data) - self._body
        if self._head > LONGEST_HEAD and not self.transport.is_closing():
            self.send_400_response("The head of the request is too long.")

    def on_message_begin(self) -> None:
        self._head = 0
        super().on_message_begin()

    def on_body(self, body: bytes) -> None:
        self._body += len(body)
        super().on_body(body)
