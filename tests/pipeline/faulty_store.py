"""A server in front of an S3 server that fails in commits, as a busy store or a network does.

``python -m tests.pipeline.faulty_store PORT ADDRESS FILE`` passes requests on to the server at this address. The file
has a line for each request to commit that comes next: one of ``FAULTS``, or nothing.
"""

import socket
import sys
import threading
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

BUSY = b"<?xml version='1.0'?><Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
EXPIRED = b"<?xml version='1.0'?><Error><Code>ExpiredToken</Code><Message>The token has expired.</Message></Error>"
FAULTS = {"busy": (503, BUSY), "expired": (400, EXPIRED), "lost": None, "done-but-lost": None}
LOCK = threading.Lock()
_OF_CONNECTION = {"transfer-encoding", "connection", "content-length", "date", "server"}


class Front(BaseHTTPRequestHandler):
    """Passes each request on, unless the next fault is for it."""

    protocol_version = "HTTP/1.1"
    target: str
    faults: Path

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        fault = self._fault()
        if answer := FAULTS.get(fault):
            return self._send(answer[0], {}, answer[1])
        if fault == "lost":
            return self._end()
        server = HTTPConnection(self.target)
        server.request(self.command, self.path, body, dict(self.headers))
        response = server.getresponse()
        content = response.read()
        if fault == "done-but-lost":
            return self._end()
        headers = {name: value for name, value in response.getheaders() if name.lower() not in _OF_CONNECTION}
        length = response.getheader("Content-Length") if self.command == "HEAD" else None
        return self._send(response.status, headers, content, length)

    def _fault(self) -> str:
        if self.command != "PUT" or "_delta_log" not in self.path:
            return ""
        with LOCK:
            fault, _, later = self.faults.read_text().partition("\n")
            self.faults.write_text(later)
        return fault

    def _send(self, status: int, headers: dict[str, str], content: bytes, length: str | None = None) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", length or str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _end(self) -> None:
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = _answer


def main(port: str, address: str, file: str) -> None:
    """Serve until this process is stopped."""
    Front.target, Front.faults = address, Path(file)
    ThreadingHTTPServer(("127.0.0.1", int(port)), Front).serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
