import shutil
import subprocess
from pathlib import Path

import pytest
from lsp_client import Client

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def folder(tmp_path):
    """A git repository with the examples, as a user would have them."""
    for file in (ROOT / "examples").glob("*.py"):
        shutil.copy(file, tmp_path / file.name)
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    return tmp_path


@pytest.fixture
def start(folder):
    """Start a server in the folder; every one is ended, and must leave nothing behind."""
    clients = []

    def begin(options=None, *, initialize=True, **more):
        client = Client(folder, **more)
        clients.append(client)
        if initialize:
            client.initialize(options)
        return client

    yield begin
    for client in clients:
        client.close()
        client.assert_nothing_left()
        assert client.stray == b"", "something wrote into the protocol's stream"
