"""What one lane has compiled is found by another, as Triton's own `compile` is asked on a GPU."""

import errno
import os
from types import SimpleNamespace

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

from worker_jobs_lane import ROOT

from tritonforge.domain.launch import Call, Scalar, Tensor
from tritonforge.domain.messages import Compile, Program, Time

pytestmark = pytest.mark.triton

CALL = Call("s", "examples/scale_shift.py", "scale_shift", (Tensor((4096,), (1,), "float32"),) * 2 + (Scalar(0.5),))


def kept(cache) -> set[str]:
    return {folder.name for folder in (cache / "triton").glob("*-lines/*") if list(folder.glob("*.json"))}


def test_a_compiler_that_shares_finds_what_was_compiled_before(tmp_path, monkeypatch):
    import triton
    import triton.compiler
    from triton.compiler import ASTSource

    from tritonforge.worker.compiled_once import share_compilations

    monkeypatch.setenv("TRITONFORGE_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("TRITON_CACHE_DIR", raising=False)
    monkeypatch.setattr(triton.compiler, "compile", triton.compiler.compile)
    share_compilations()
    shared = triton.compiler.compile
    share_compilations()
    assert triton.compiler.compile is shared, "once is enough"
    (tmp_path / "k.py").write_text(
        "import triton\nimport triton.language as tl\n\n\n@triton.jit\ndef k(x, B: tl.constexpr):\n"
        "    tl.store(x + tl.arange(0, B), 1.0)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    import k

    source = ASTSource(k.k, {"x": "*fp32", "B": "constexpr"}, {(1,): 64})
    target = triton.backends.compiler.GPUTarget("cuda", 90, 32)
    first, again = (triton.compiler.compile(source, target=target) for _ in range(2))
    assert first.hash == again.hash
    assert len(kept(tmp_path)) == 1
    assert "TRITON_CACHE_DIR" not in os.environ


def test_a_cache_that_cannot_be_written_is_no_fault_of_the_kernel(tmp_path, monkeypatch):
    from tritonforge.worker.compiled_once import cache_of, require_cache
    from tritonforge.worker.failures import JobFailed

    (tmp_path / "file").write_text("")
    monkeypatch.delenv("TRITONFORGE_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    for attempt in (require_cache, cache_of("k.py").__enter__):
        with pytest.raises(JobFailed) as caught:
            attempt()
        failure = caught.value.failure
        assert failure.kind == "environment"
        assert failure.message.startswith(f"Files cannot be written to {tmp_path / 'file'}")
        assert failure.message.endswith("Set TRITONFORGE_CACHE_DIR to a folder that can be written.")
    monkeypatch.setenv("TRITONFORGE_CACHE_DIR", str(tmp_path / "elsewhere"))
    require_cache()
    assert "TRITON_CACHE_DIR" not in os.environ


@pytest.mark.parametrize(
    "error",
    [OSError(errno.ENOSPC, "No space left on device"), PermissionError(errno.EACCES, "Permission denied", "/x")],
)
def test_a_compiler_that_cannot_write_its_files_is_no_fault_of_the_kernel(tmp_path, monkeypatch, error):
    from tritonforge.worker import compiling
    from tritonforge.worker.failures import JobFailed

    def refusing(_event):
        raise error

    monkeypatch.setenv("TRITONFORGE_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(compiling, "compile_event", refusing)
    request = SimpleNamespace(arch="sm_90", artefacts=())
    with pytest.raises(JobFailed) as caught:
        compiling._Compiler(request, None, None)._compile(SimpleNamespace(name="k"), None)
    assert caught.value.failure.kind == "environment"
    assert ("Make room there" in caught.value.failure.message) == (error.errno == errno.ENOSPC)


@pytest.mark.gpu
def test_what_was_compiled_without_the_gpu_is_not_compiled_again_to_be_timed(compile_lane, lane_cache):
    import torch

    if not torch.cuda.is_available():
        pytest.skip("needs an NVIDIA GPU")
    arch = "sm_{}{}".format(*torch.cuda.get_device_capability())
    program = Program(str(ROOT), "examples/scale_shift.py")
    compile_lane.do(Compile(program, CALL, arch, artefacts=()))
    before = kept(lane_cache)
    compile_lane.do(Time((program,), CALL, samples=5))
    assert kept(lane_cache) == before
