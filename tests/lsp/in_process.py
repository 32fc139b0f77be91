"""A server without a process: messages go in as decoded JSON, and what it writes is decoded again."""

from __future__ import annotations

import asyncio
import json

from lsp_client import CAPABILITIES

from tritonforge.lsp.server import Server


class Wire:
    """What the server writes to."""

    def __init__(self):
        self.messages = []

    def write(self, data):
        _, _, body = bytes(data).partition(b"\r\n\r\n")
        self.messages.append(json.loads(body))

    def close(self):
        pass

    async def drain(self):
        pass


class InProcess:
    """To be made in a running event loop; `close` it."""

    def __init__(self, folder, *, capabilities=CAPABILITIES, options=None):
        self.wire = Wire()
        self.server = Server()
        self.server.protocol.set_writer(self.wire)
        self._ids = 0
        self.initialized = self.request(
            "initialize",
            {
                "processId": None, "rootUri": folder.as_uri(), "capabilities": capabilities,
                "initializationOptions": options, "workspaceFolders": [{"uri": folder.as_uri(), "name": "w"}],
            },
        )  # fmt: skip
        self.notify("initialized", {})

    def receive(self, message):
        # As JSON, so that nothing is shared and everything is what a wire can carry.
        self.server.protocol.receive(json.loads(json.dumps({"jsonrpc": "2.0", **message})))

    def notify(self, method, params):
        self.receive({"method": method, "params": params})

    def request(self, method, params):
        """The result of a request that is answered in line."""
        self._ids += 1
        self.receive({"id": self._ids, "method": method, "params": params})
        answer = next(m for m in reversed(self.wire.messages) if m.get("id") == self._ids and "method" not in m)
        assert "error" not in answer, answer["error"]
        return answer["result"]

    def text(self, uri):
        """What the server takes the document to be."""
        return self.server.state.documents.text(uri)

    async def close(self):
        await asyncio.sleep(0)  # what was begun in the last moment begins
        await self.server.close()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
