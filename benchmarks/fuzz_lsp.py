"""Fuzz the language server's documents: random edit sequences in every position encoding, against a model in bytes.

Run `python benchmarks/fuzz_lsp.py [--sequences 21000] [--seed N] [--json FILE]`. Each sequence opens a document (also
CRLF, half a kernel, or nothing), sends 1 to 8 notifications of up to four changes, or types a kernel character by
character, and compares the server's text with the model's after every notification; one in ten then asks for
diagnostics, lenses and a hover, whose ranges must lie between characters of the text.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "lsp"))

from edit_fuzz import ENCODINGS, Fuzz


async def run(encoding, sequences, seed):
    with tempfile.TemporaryDirectory() as name:
        fuzz, begun = Fuzz(Path(name), encoding, seed), time.perf_counter()
        while fuzz.sequences < sequences:
            fuzz.sequence()
            if fuzz.sequences % 100 == 0:
                await asyncio.sleep(0)
        await fuzz.server.close()
    return {
        "encoding": encoding, "sequences": fuzz.sequences, "notifications": fuzz.events, "edits": fuzz.edits,
        "documents_asked_about": fuzz.read, "seconds": round(time.perf_counter() - begun, 1),
    }  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sequences", type=int, default=21_000, help="over all encodings together")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, help="write the counts there")
    given = parser.parse_args()
    each = -(-given.sequences // len(ENCODINGS))
    counts = [asyncio.run(run(encoding, each, given.seed)) for encoding in ENCODINGS]
    for one in counts:
        print(", ".join(f"{name} {value}" for name, value in one.items()))
    total = sum(one["sequences"] for one in counts)
    print(
        f"{total} sequences, {sum(one['edits'] for one in counts)} edits: the document was the client's after every one"
    )
    if given.json:
        given.json.write_text(json.dumps({"seed": given.seed, "runs": counts}, indent=1) + "\n")


if __name__ == "__main__":
    main()
