#!/usr/bin/env python3
"""An HTTP service that refuses late writers: it keeps a body under each name, with the largest fence that took it.

    service.py DATABASE PORT

    POST /NAME/take   Fence-Token: N                  takes NAME for a holder and reads it
    PUT  /NAME        Fence-Token: N, If-Match: "V"   writes it, if it still has the version that was read
    GET  /NAME                                        reads it

Every answer has the version as ETag. A smaller fence than the largest is refused with 409, another version with
412; the body then says what was `held` and what is `current`.

Promised: once a holder has taken a name, no earlier one changes it; what was answered is on the disk.
Not promised: anything against callers that make fences up. Let in only those whom you trust with theirs.
"""

import json
import re
import sqlite3
import sys
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

BODY_BYTES_MAX = 1024 * 1024
DATABASE, PORT = sys.argv[1], int(sys.argv[2])


class Refused(Exception):
    def __init__(self, status, code, **details):
        self.status, self.problem = status, {"status": status, "code": code, **details}


def change(name, fence, version=None, body=None):
    """Takes a name, and writes it if there is a body: all in one transaction, or nothing."""
    with closing(connect()) as database:
        # Before it is read: two that compare with the same row would both find themselves to be the later one.
        database.execute("BEGIN IMMEDIATE")
        kept_body, kept_fence, kept_version = find(database, name) or (b"", 0, 0)
        if fence < kept_fence:
            raise Refused(409, "stale_fence", held=fence, current=kept_fence)
        if body is not None:
            if version != kept_version:
                raise Refused(412, "stale_version", held=version, current=kept_version)
            kept_body, kept_version = body, kept_version + 1
        database.execute("REPLACE INTO items VALUES (?, ?, ?, ?)", (name, kept_body, fence, kept_version))
        database.execute("COMMIT")
        return kept_body, kept_version


def find(database, name):
    return database.execute("SELECT body, fence, version FROM items WHERE name = ?", (name,)).fetchone()


def connect():
    return sqlite3.connect(DATABASE, timeout=30, isolation_level=None)


class Handler(BaseHTTPRequestHandler):
    timeout = 30

    def do_POST(self):
        self.answer(lambda: change(self.name("/take"), self.fence()))

    def do_PUT(self):
        def write():
            version = self.number("If-Match", r'"(\d{1,16})"', 428)
            _, version = change(self.name(), self.fence(), version, self.body())
            return b"", version

        self.answer(write)

    def do_GET(self):
        def read():
            with closing(connect()) as database:
                kept = find(database, self.name())
            if kept is None:
                raise Refused(404, "not_found")
            return kept[0], kept[2]

        self.answer(read)

    def name(self, ending=""):
        found = re.fullmatch(r"/([^/]{1,200})" + ending, self.path)
        if not found:
            raise Refused(404, "not_found")
        return found[1]

    def fence(self):
        return self.number("Fence-Token", r"(\d{1,16})", 428)

    def number(self, header, pattern, status):
        found = re.fullmatch(pattern, self.headers.get(header, ""), re.ASCII)
        if not found:
            raise Refused(status, "header_required", header=header)
        return int(found[1])

    def body(self):
        length = self.number("Content-Length", r"(\d{1,16})", 411)
        if length > BODY_BYTES_MAX:
            raise Refused(413, "payload_too_large", bytes_max=BODY_BYTES_MAX)
        body = self.rfile.read(length)
        if len(body) < length:
            raise Refused(400, "incomplete_body")
        return body

    def answer(self, act):
        try:
            body, version = act()
            self.send(200, body, {"ETag": f'"{version}"'})
        except Refused as refused:
            headers = {"Content-Type": "application/problem+json"}
            self.send(refused.status, json.dumps(refused.problem).encode(), headers)

    def send(self, status, body, headers):
        self.send_response(status)
        for header, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(header, value)
        self.end_headers()
        self.wfile.write(body)


with closing(connect()) as fresh:
    columns = "name TEXT PRIMARY KEY, body BLOB, fence INTEGER, version INTEGER"
    fresh.execute(f"CREATE TABLE IF NOT EXISTS items ({columns})")
server = ThreadingHTTPServer(("127.0.0.1", PORT), Handler)
print(f"serves http://127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()
