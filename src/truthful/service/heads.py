"""A limit for the head of requests, so that none fills the memory. `middleware` limits bodies."""

from __future__ import annotations

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

#: The most bytes of a request apart from its body: its address, its headers and chunked encoding.
LONGEST_HEAD = 65_536


class LimitedHeads(HttpToolsProtocol):
    """uvicorn's HTTP/1.1 protocol with a limit for the head, which it does not have itself."""

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
