"""Give a recording the facts that today's readers find: compiled again without a GPU, times kept.

    python -m sweeps.record -o OFFLINE.jsonl.xz --no-gpu --arch sm_90 --sizes 1      # with the same triton
    python -m sweeps.reread RECORDING.jsonl.xz OFFLINE.jsonl.xz -o OUT.jsonl.xz

The compiler is the same program on a machine with a GPU and on one without. What it made of each configuration must be
the same too, register for register and instruction for instruction, else nothing is written.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import lzma
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sweeps.data import Unreadable, lines_of

_SAME = ("resources", "tensor_path", "programs")


class Different(Exception):
    """The two recordings do not hold the same compilations; the text names one that differs."""


def reread(recording: Path, offline: Path) -> Iterator[Any]:
    """Yield the lines of `recording` with the compilations of `offline`; what that lacks stays as it is.

    Raises:
        Different: when the compilers differ, or what they made of a configuration.
    """
    now: dict[str, Any] = {}
    header: Mapping[str, Any] = {}
    for line in lines_of(offline):
        if "format" in line:
            header = line
        elif line.get("compilation"):
            now[_key(line)] = line["compilation"]
    for line in lines_of(recording):
        if "format" in line:
            for name in ("triton", "arch"):
                if line[name] != header.get(name):
                    raise Different(f"{name} was {line[name]}, now it is {header.get(name)}")
            line["reread"] = dt.datetime.now(dt.UTC).date().isoformat()
        elif line.get("compilation") and (found := now.get(_key(line))):
            if not _same(line["compilation"], found):
                raise Different(f"{line['kernel']} {line['config']} compiles to something else")
            line["compilation"] = found
        yield line


def _key(line: Mapping[str, Any]) -> str:
    return json.dumps([line["kernel"], line["size"], line["config"]])


def _same(before: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    def counts(one: Mapping[str, Any]) -> Any:
        return {line: found["instructions"] for line, found in one["instructions"].items()}

    return all(before[name] == now[name] for name in _SAME) and counts(before) == counts(now)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recording", type=Path)
    parser.add_argument("offline", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    given = parser.parse_args()
    try:
        text = "".join(
            json.dumps(line, separators=(",", ":")) + "\n" for line in reread(given.recording, given.offline)
        )
    except (Different, Unreadable) as error:
        print(error, file=sys.stderr)
        return 1
    given.output.write_bytes(lzma.compress(text.encode(), preset=9))
    return 0


if __name__ == "__main__":
    sys.exit(main())
