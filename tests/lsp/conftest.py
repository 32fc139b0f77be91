import pytest
from lsp_client import Client


@pytest.fixture
def folder(fresh_examples):
    """A git repository with the examples, as a user would have them."""
    return fresh_examples()


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
