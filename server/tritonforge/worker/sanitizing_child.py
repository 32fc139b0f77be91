"""The process that compute-sanitizer watches: repeats a call once, with every tensor in memory of its own."""

from __future__ import annotations

import json
import os
import sys
import threading
import traceback
from pathlib import Path

from tritonforge.domain.codec import decode, encode
from tritonforge.domain.messages import Failure, Sanitize
from tritonforge.worker.failures import JobFailed

REQUEST, FAILURE = "request.json", "failure.json"
"""Files of the folder through which a job and this process speak."""
_GOODBYE_S = 10.0


def main(folder: str) -> None:
    """Do what the folder's request says, and leave the failure, if there is one, beside it."""
    # PyTorch's allocator hands out parts of large blocks, in which an access beside a tensor is none beside a block;
    # expandable segments make the tool report accesses that are right.
    os.environ["PYTORCH_NO_CUDA_MEMORY_CACHING"] = "1"
    os.environ["PYTORCH_CUDA_ALLOC_CONF"] = os.environ["PYTORCH_ALLOC_CONF"] = "expandable_segments:False"
    place = Path(folder)
    status = 0
    try:
        request = decode(Sanitize, json.loads((place / REQUEST).read_text(encoding="utf-8")))
        _repeat(request)
    except JobFailed as error:
        _leave(place, error.failure)
        status = 1
    except BaseException as error:
        traceback.print_exc()
        said = " ".join(str(error).split())[:300]
        _leave(place, Failure("user-error", f"The program failed under the sanitizer: {type(error).__name__}: {said}"))
        status = 1
    # The tool writes its summary when the process ends in good order, which the program's threads may prevent.
    patience = threading.Timer(_GOODBYE_S, os._exit, (status,))
    patience.daemon = True
    patience.start()
    sys.exit(status)


def _leave(place: Path, failure: Failure) -> None:
    (place / FAILURE).write_text(json.dumps(encode(failure)), encoding="utf-8")


def _repeat(request: Sanitize) -> None:
    from tritonforge.worker.preparing import prepare_zygote

    prepare_zygote("compile")
    import torch

    from tritonforge.worker.calling import runnable, seed_everything
    from tritonforge.worker.launching import first_configs
    from tritonforge.worker.loading import load
    from tritonforge.worker.on_device import need_gpu
    from tritonforge.worker.rebuilding import rebuild

    need_gpu()
    loaded = load(request.program)
    with loaded.active(), first_configs():
        repeated = runnable(loaded, request.call)
        rebuilt = rebuild(request.call, device="cuda", names=repeated.names, main=loaded.module, fenced=False)
        seed_everything(request.call.seed)
        repeated.run(rebuilt.arguments, rebuilt.keywords)
        torch.cuda.synchronize()
