"""Chromium, and a server on loopback with every page; it also serves them as Jenkins does."""

import shutil
import threading
from collections.abc import Callable, Iterator
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from playwright.sync_api import Browser, sync_playwright

from optimizer.emit.report.page import style
from tests.browser.states import pages

NAMES = ("chromium", "chromium-browser", "google-chrome")
# Jenkins' own policy for files of a build: no script, no style inside the page.
JENKINS = "sandbox; default-src 'none'; img-src 'self'; style-src 'self'"


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """The system's Chromium; nothing is downloaded."""
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        pytest.skip(f"no browser: none of {', '.join(NAMES)} is on the PATH")
    with sync_playwright() as play:
        # Root, as in a container, has no sandbox; the pages are our own.
        yield (result := play.chromium.launch(executable_path=path, args=["--no-sandbox"]))
        result.close()


@pytest.fixture(scope="package")
def address() -> Iterator[str]:
    """A server: /plain/NAME/report.html, /jenkins/NAME/report.html, and report.css in every folder."""
    text_of: Callable[[str], str] = cache(lambda name: pages()[name]())

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/favicon.ico":  # the browser asks for it, not the page
                self.send_response(204)
                self.end_headers()
                return
            policy, *folders, file = self.path.strip("/").split("/")
            is_page = file == "report.html"
            content = (text_of(*folders) if is_page else style()).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/html" if is_page else "text/css")
            self.send_header("Content-Length", str(len(content)))
            if policy == "jenkins":
                self.send_header("Content-Security-Policy", JENKINS)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
