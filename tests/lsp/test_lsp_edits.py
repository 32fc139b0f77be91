"""The document is the client's, whatever edits it sends (`benchmarks/fuzz_lsp.py` runs many more of them)."""

import asyncio

import pytest
from edit_fuzz import ENCODINGS, Fuzz, Units


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_after_random_edits_the_document_is_the_clients(encoding, tmp_path):
    async def run():
        fuzz = Fuzz(tmp_path, encoding, seed=0)
        for _ in range(150):
            fuzz.sequence()
        await fuzz.server.close()
        return fuzz

    fuzz = asyncio.run(run())
    assert fuzz.sequences == 150
    assert fuzz.edits > 500
    assert fuzz.read


def test_the_model_counts_as_the_protocol_does():
    units = Units("a🚀b\r\nc\rd\ne", "utf-16")
    assert [units.data[a:b].decode("utf-16-le") for a, b in units.lines()] == ["a🚀b", "c", "d", "e"]
    units.apply({"range": {"start": {"line": 0, "character": 3}, "end": {"line": 1, "character": 9}}, "text": "!"})
    assert units.text == "a🚀!\rd\ne"
