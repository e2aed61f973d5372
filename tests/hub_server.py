"""A stand-in for the hub on this machine: enough of its interface for the real client to push and fetch a model."""

import base64
import hashlib
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SHA = "0123456789abcdef0123456789abcdef01234567"


class Hub(ThreadingHTTPServer):
    """Repositories as {name: {path: bytes}}; only this token may write."""

    def __init__(self, token):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.token, self.repos, self.private, self.messages = token, {}, {}, []

    @property
    def address(self):
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def _answer(self, code, body=b"", **headers):
        body = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(code)
        for name, value in {"Content-Length": len(body), **headers}.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_POST(self):
        content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        hub = self.server
        if self.headers.get("Authorization") != f"Bearer {hub.token}":
            return self._answer(401, {"error": "Invalid username or password."}, X_Error_Message="Invalid token")
        if self.path == "/api/repos/create":
            wanted = json.loads(content)
            name = f"{wanted['organization']}/{wanted['name']}"
            hub.repos.setdefault(name, {})
            hub.private[name] = wanted.get("private") or wanted.get("visibility") == "private"
            return self._answer(200, {"url": f"{hub.address}/{name}"})
        if "/preupload/" in self.path:
            files = json.loads(content)["files"]
            plain = [{"path": f["path"], "uploadMode": "regular", "shouldIgnore": False} for f in files]
            return self._answer(200, {"files": plain})
        if "/commit/" in self.path:
            name = "/".join(self.path.split("/")[3:5])
            for line in map(json.loads, content.splitlines()):
                if line["key"] == "header":
                    hub.messages.append(line["value"]["summary"])
                if line["key"] == "file":
                    hub.repos[name][line["value"]["path"]] = base64.b64decode(line["value"]["content"])
            url = f"{hub.address}/{name}/commit/{SHA}"
            return self._answer(200, {"commitUrl": url, "commitOid": SHA, "success": True})
        return self._answer(200, {})

    def do_GET(self):
        words = self.path.split("?")[0].strip("/").split("/")
        if words[:2] == ["api", "models"]:
            name = "/".join(words[2:4])
            if name not in self.server.repos:
                return self._answer(404, {"error": "Repository not found"}, X_Error_Code="RepoNotFound")
            files = self.server.repos[name]
            siblings = [{"rfilename": path} for path in files]
            if "tree" in words:
                rows = [{"type": "file", "path": p, "size": len(b), "oid": _etag(b)} for p, b in files.items()]
                return self._answer(200, rows)
            return self._answer(200, {"id": name, "_id": SHA, "sha": SHA, "siblings": siblings})
        name, path = "/".join(words[:2]), "/".join(words[4:])
        content = self.server.repos.get(name, {}).get(path)
        if content is None:
            return self._answer(404, {"error": "Entry not found"}, X_Error_Code="EntryNotFound", X_Repo_Commit=SHA)
        return self._answer(200, content, ETag=f'"{_etag(content)}"', X_Repo_Commit=SHA)

    do_HEAD = do_GET  # noqa: N815


def _etag(content):
    return hashlib.sha1(content, usedforsecurity=False).hexdigest()


@contextmanager
def serving(token):
    """The hub, while the block runs."""
    hub = Hub(token)
    thread = threading.Thread(target=hub.serve_forever, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        hub.shutdown()
        hub.server_close()
        thread.join()
