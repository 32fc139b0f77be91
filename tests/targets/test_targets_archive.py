"""The archive holds what a worker needs and nothing that would make its digest move."""

import io
import zipfile

from tritonforge.targets.archive import worker_archive


def names():
    return zipfile.ZipFile(io.BytesIO(worker_archive().data)).namelist()


def test_it_holds_the_worker_the_nouns_and_what_kernels_may_import():
    assert {
        "tritonforge/__init__.py",
        "tritonforge/domain/messages.py",
        "tritonforge/runtime/__init__.py",
        "tritonforge/worker/__main__.py",
        "tritonforge/worker/supervisor.py",
    } <= set(names())


def test_it_holds_nothing_of_the_server_and_no_bytecode():
    assert all(name.startswith("tritonforge/") for name in names())
    rooms = {name.split("/")[1] for name in names() if name.count("/") > 1}
    assert rooms == {"domain", "worker", "runtime"}
    assert not [name for name in names() if "__pycache__" in name or name.endswith(".pyc")]


def test_packing_again_gives_the_same_bytes_and_digest():
    assert worker_archive.__wrapped__() == worker_archive.__wrapped__()
