"""A registry of images on loopback, for an engine that reaches no other. It has an image for each name that begins with
"busy", with the tag 1: busybox, and a layer that no other name has.

    registry.py PORT GATE

Of that layer it sends one half, and the rest when the file GATE exists. Says "ready", and then what it sends: "manifest
NAME", "half NAME" and "all NAME".
"""

import gzip
import hashlib
import io
import json
import os
import random
import re
import sys
import tarfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
CONFIG = "application/vnd.docker.container.image.v1+json"
LAYER = "application/vnd.docker.image.rootfs.diff.tar.gzip"
LAYER_BYTES = 4 << 20


def digest(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def tar(entries):
    """A tar of (name, mode, content) for files and (name, target) for links."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for entry in entries:
            info = tarfile.TarInfo(entry[0])
            if len(entry) == 2:
                info.type, info.linkname = tarfile.SYMTYPE, entry[1]
                archive.addfile(info)
            else:
                info.mode, info.size = entry[1], len(entry[2])
                archive.addfile(info, io.BytesIO(entry[2]))
    return buffer.getvalue()


class Image:
    def __init__(self, name, base):
        own = tar([("own", 0o644, random.Random(name).randbytes(LAYER_BYTES))])
        layers = [(layer, gzip.compress(layer, 1, mtime=0)) for layer in (base, own)]
        config = json.dumps(
            {
                "architecture": "amd64",
                "os": "linux",
                "config": {"Env": ["PATH=/bin"], "Cmd": ["sh"]},
                "rootfs": {"type": "layers", "diff_ids": [digest(layer) for layer, _ in layers]},
            }
        ).encode()
        self.manifest = json.dumps(
            {
                "schemaVersion": 2,
                "mediaType": MANIFEST,
                "config": {"mediaType": CONFIG, "size": len(config), "digest": digest(config)},
                "layers": [{"mediaType": LAYER, "size": len(p), "digest": digest(p)} for _, p in layers],
            }
        ).encode()
        self.blobs = {digest(blob): blob for blob in [config] + [packed for _, packed in layers]}
        self.slow = digest(layers[1][1])


class Registry(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    images = {}
    lock = threading.Lock()
    base = b""
    gate = ""

    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        found = re.fullmatch(r"/v2/(?:(busy[^/]*)/(manifests|blobs)/([^/]+))?", self.path)
        if found is None:
            self.answer(404, "application/json", b'{"errors":[{"code":"NAME_UNKNOWN","message":"no such repository"}]}')
            return
        name, kind, which = found.groups()
        if name is None:
            self.answer(200, "application/json", b"{}")
            return
        with self.lock:
            image = self.images.get(name) or self.images.setdefault(name, Image(name, self.base))
        if kind == "manifests" and which in ("1", digest(image.manifest)):
            self.say("manifest", name)
            self.answer(200, MANIFEST, image.manifest)
        elif kind == "blobs" and which in image.blobs:
            self.answer(200, "application/octet-stream", image.blobs[which], which == image.slow and name)
        else:
            self.answer(404, "application/json", b'{"errors":[{"code":"MANIFEST_UNKNOWN","message":"unknown"}]}')

    def answer(self, status, kind, body, slow=None):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Docker-Content-Digest", digest(body))
        self.end_headers()
        if self.command == "HEAD":
            return
        try:
            if slow:
                self.wfile.write(body[: len(body) // 2])
                self.wfile.flush()
                self.say("half", slow)
                while not os.path.exists(self.gate):
                    time.sleep(0.01)
                self.wfile.write(body[len(body) // 2 :])
                self.say("all", slow)
            else:
                self.wfile.write(body)
        except OSError:
            # The engine has lost interest.
            self.close_connection = True

    def say(self, *words):
        with self.lock:
            print(*words, flush=True)


def main(port, gate):
    with open("/bin/busybox", "rb") as file:
        Registry.base = tar(
            [("bin/busybox", 0o755, file.read())]
            + [("bin/" + name, "busybox") for name in ("sh", "echo", "awk", "sleep", "cat", "seq", "env", "grep")]
        )
    Registry.gate = gate
    server = ThreadingHTTPServer(("127.0.0.1", int(port)), Registry)
    print("ready", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
