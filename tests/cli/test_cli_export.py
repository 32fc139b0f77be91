"""`export`: only what passed the gate, for the code as it is, keyed by what a launch knows, in both styles."""

from __future__ import annotations

import dataclasses
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tritonforge.analysis import analyze
from tritonforge.cli.main import run
from tritonforge.domain.candidate import Candidate, Suggestion, Trial, Verdict
from tritonforge.domain.compilation import Compilation
from tritonforge.domain.launch import CallSite, RecordedLaunch, Scalar, Tensor
from tritonforge.domain.profile import TargetInfo
from tritonforge.domain.results import Assessment, OptimizeResult
from tritonforge.domain.tuning import TunedLaunch
from tritonforge.report.tuned_file import tuned_document
from tritonforge.runtime import tuned
from tritonforge.runtime.devices import DeviceInfo
from tritonforge.store import open_store
from tritonforge.workload.launches import to_launch

H200 = TargetInfo("local", "gpu", "NVIDIA H200", "580.1", "2.11.0", "3.6.0")
OFFLINE = TargetInfo("offline", "offline", None, None, "2.13.0", "3.7.1")
MATMUL = """\
import torch, triton
import triton.language as tl

@triton.jit
def matmul(a_ptr, b_ptr, c_ptr, M, N, K, stride_am, ACTIVATION: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    i = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    j = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    v = tl.load(a_ptr + i * stride_am)
    if ACTIVATION == "relu":
        v = tl.maximum(v, 0)
    tl.store(c_ptr + i[:, None] * N + j[None, :], v[:, None] + tl.load(b_ptr + j)[None, :], mask=(j < N)[None, :])

def run(a, b, c):
    matmul[(triton.cdiv(a.shape[0], 32), triton.cdiv(64, 32))](a, b, c, a.shape[0], 64, 64, 1, ACTIVATION="relu", BLOCK_M=32, BLOCK_N=32)
"""
OWN = {"BLOCK_M": 32, "BLOCK_N": 32}


def kernel_of(text, file):
    (kernel,) = analyze(text, file).kernels
    return kernel


def launch_of(
    kernel,
    m,
    *,
    own=OWN,
    options=(("num_warps", 4), ("num_stages", 3)),
    arguments=None,
    flags=(("ACTIVATION", "relu"),),
):
    matrix = Tensor((m, 64), (64, 1), "float16")
    arguments = arguments or [
        ("a_ptr", matrix),
        ("b_ptr", matrix),
        ("c_ptr", matrix),
        ("M", m),
        ("N", 64),
        ("K", 64),
        ("stride_am", 1),
    ]
    return to_launch(kernel, RecordedLaunch(
        kernel.file, kernel.name, kernel.range.start.line,
        tuple((n, v if isinstance(v, Tensor) else Scalar(v)) for n, v in arguments),
        tuple((n, Scalar(v)) for n, v in (*flags, *own.items())), tuple((n, Scalar(v)) for n, v in options), (m // 32, 2, 1),
        CallSite(kernel.file, 14, "run"),
    ))  # fmt: skip


def trial(parameters, times, *, accepted=True, rewrites=None):
    verdict = Verdict(accepted, "", (), "", "", None, None)
    named = rewrites or (("launch-parameters", tuple((n, str(v)) for n, v in parameters.items())),)
    return Trial(Candidate("c", (), named), verdict, times, accepted=accepted)


def result(kernel, launches, trials, *, target=H200, source=100.0):
    accepted = [one for one in trials if one.accepted]
    best = Suggestion(accepted[0], 2.0, (1.9, 2.1), "measured", "") if accepted else None
    arch = "sm_90"
    return OptimizeResult(
        kernel, target, tuple(launches), {one.id: source for one in launches}, "measured" if target.gpu else "predicted", best, tuple(trials),
        assessments=tuple(Assessment(Compilation(one.id, kernel.name, arch, "3.6.0")) for one in launches),
    )  # fmt: skip


@pytest.fixture
def workspace(tmp_path, monkeypatch):
    (tmp_path / "tritonforge.toml").write_text("")
    (tmp_path / "mm.py").write_text(MATMUL)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def keep(folder, *results):
    with open_store(folder) as store:
        for one in results:
            store.put_tuning(one)


def exported(folder, *arguments):
    assert run(["export", "mm.py", "-o", "out/mm.tuned.json", *arguments]) == 0
    return json.loads((folder / "out" / "mm.tuned.json").read_text())


def test_the_best_accepted_configuration_of_each_problem_is_written(workspace, capsys):
    kernel = kernel_of(MATMUL, "mm.py")
    small, large = launch_of(kernel, 64), launch_of(kernel, 4096)
    trials = [
        trial({"BLOCK_M": 128, "num_warps": 8}, {small.id: 150.0, large.id: 40.0}),
        trial({"BLOCK_M": 16}, {small.id: 60.0, large.id: 90.0}),
        trial({"BLOCK_M": 256}, {small.id: 1.0, large.id: 1.0}, accepted=False),
        trial(
            {}, {small.id: 2.0, large.id: 2.0}, rewrites=(("fuse-epilogue", ()),)
        ),  # other code: nothing to pick at a launch
    ]
    keep(workspace, result(kernel, [small, large], trials))
    made = exported(workspace)["kernels"]["matmul"]
    assert made["keys"] == {"sizes": ["M", "N", "K"], "dtypes": ["a_ptr", "b_ptr", "c_ptr"], "flags": ["ACTIVATION"]}
    assert made["tunes"] == ["BLOCK_M", "BLOCK_N", "num_warps", "num_stages"]
    assert made["fallback"] == {**OWN, "num_warps": 4, "num_stages": 3}
    (gpu,) = made["gpus"]
    assert (gpu["gpu"], gpu["arch"], gpu["versions"]["triton"]) == ("NVIDIA H200", "sm_90", "3.6.0")
    first, second = gpu["entries"]
    assert first["sizes"] == {"M": 64, "N": 64, "K": 64}
    assert first["dtypes"]["a_ptr"] == "float16"
    assert first["flags"] == {"ACTIVATION": "relu"}
    assert first["config"] == {"BLOCK_M": 16, "BLOCK_N": 32, "num_warps": 4, "num_stages": 3}
    assert (first["time_us"], first["source_us"], first["provenance"]) == (60.0, 100.0, "measured")
    assert second["config"] == {"BLOCK_M": 128, "BLOCK_N": 32, "num_warps": 8, "num_stages": 3}
    assert "2 configurations of 1 kernel." in capsys.readouterr().out


def test_measured_and_predicted_stand_side_by_side(workspace, capsys):
    kernel = kernel_of(MATMUL, "mm.py")
    one = launch_of(kernel, 64)
    keep(
        workspace,
        result(kernel, [one], []),
        result(kernel, [one], [trial({"BLOCK_M": 64}, {one.id: 9.0})], target=OFFLINE),
    )
    gpus = exported(workspace)["kernels"]["matmul"]["gpus"]
    assert [(gpu["gpu"], gpu["entries"][0]["provenance"]) for gpu in gpus] == [
        ("NVIDIA H200", "measured"),
        ("", "predicted"),
    ]
    assert "1 of them predicted" in capsys.readouterr().out


def test_a_block_that_is_computed_from_the_sizes_is_not_chosen(workspace):
    text = MATMUL.replace("BLOCK_N=32)", "BLOCK_N=triton.next_power_of_2(a.shape[1]))")
    (workspace / "mm.py").write_text(text)
    kernel = kernel_of(text, "mm.py")
    one = launch_of(kernel, 64)
    keep(workspace, result(kernel, [one], [trial({"BLOCK_M": 64}, {one.id: 9.0})]))
    assert exported(workspace)["kernels"]["matmul"]["tunes"] == ["BLOCK_M", "num_warps", "num_stages"]


def test_tuned_picks_from_what_export_writes(workspace):
    kernel = kernel_of(MATMUL, "mm.py")
    one = launch_of(kernel, 64)
    keep(workspace, result(kernel, [one], [trial({"BLOCK_M": 64}, {one.id: 9.0})]))
    exported(workspace)

    class Kernel:
        def __init__(self, fn):
            self.fn = fn

        def run(self, *args, grid, warmup, **kwargs):
            return kwargs

    def matmul(a_ptr, b_ptr, c_ptr, M, N, K, stride_am, ACTIVATION, BLOCK_M, BLOCK_N):  # noqa: N803, PLR0917
        pass

    class Array:
        dtype, device = "torch.float16", None

    launched = tuned("out/mm.tuned.json", name="matmul", device=lambda _: DeviceInfo("NVIDIA H200", "sm_90"))(
        Kernel(matmul)
    )
    found = launched[(1,)](Array(), Array(), Array(), 64, 64, 64, 1, ACTIVATION="relu")
    assert found == {"ACTIVATION": "relu", "BLOCK_M": 64, "BLOCK_N": 32, "num_warps": 4, "num_stages": 3}


def test_stale_and_missing_results_are_told(workspace, capsys):
    assert run(["export", "mm.py", "-o", "x.json"]) == 2
    assert "it was not optimised yet. Run tritonforge optimize on it first." in capsys.readouterr().err
    kernel = kernel_of(MATMUL, "mm.py")
    keep(workspace, result(kernel, [launch_of(kernel, 64)], []))
    (workspace / "mm.py").write_text(MATMUL.replace("tl.maximum(v, 0)", "tl.maximum(v, 1)"))
    assert run(["export", "mm.py", "-o", "x.json"]) == 2
    assert "its code has changed since it was optimised" in capsys.readouterr().err
    assert not (workspace / "x.json").exists()


def test_a_folder_that_cannot_be_written_is_told(workspace, capsys):
    kernel = kernel_of(MATMUL, "mm.py")
    keep(workspace, result(kernel, [launch_of(kernel, 64)], []))
    (workspace / "file").write_text("")
    assert run(["export", "mm.py", "-o", "file/x.json"]) == 2
    assert "cannot be written" in capsys.readouterr().err


def matrices(stride, count=64):
    """The same sizes with rows that lie `stride` apart; `count` rows."""
    tensor = Tensor((count, 64), (stride, 1), "float16")
    return [*((name, tensor) for name in ("a_ptr", "b_ptr", "c_ptr")), ("M", 64), ("N", 64), ("K", 64)]


def keys(entries):
    return [json.dumps([one["sizes"], one["dtypes"], one["flags"]]) for one in entries]


def test_strides_choose_where_nothing_else_tells_launches_apart(workspace, capsys):
    kernel = kernel_of(MATMUL, "mm.py")
    dense, apart = (launch_of(kernel, 64, arguments=[*matrices(s), ("stride_am", s)]) for s in (64, 128))
    trials = [
        trial({"BLOCK_M": 16}, {dense.id: 9.0, apart.id: 90.0}),
        trial({"BLOCK_M": 64}, {dense.id: 90.0, apart.id: 9.0}),
    ]
    keep(workspace, result(kernel, [dense, apart], trials))
    made = exported(workspace)["kernels"]["matmul"]
    assert made["keys"]["sizes"] == ["M", "N", "K", "stride_am"]
    first, second = made["gpus"][0]["entries"]
    assert [(one["sizes"]["stride_am"], one["config"]["BLOCK_M"]) for one in (first, second)] == [(64, 16), (128, 64)]
    said = capsys.readouterr()
    assert "2 configurations of 1 kernel." in said.out
    assert said.err == ""


def test_launches_that_pass_the_same_have_one_entry_of_the_one_that_takes_most_time(workspace, capsys):
    kernel = kernel_of(MATMUL, "mm.py")
    light, heavy = (launch_of(kernel, 64, arguments=[*matrices(s), ("stride_am", 1)]) for s in (64, 128))
    heavy = dataclasses.replace(heavy, count=12)
    trials = [
        trial({"BLOCK_M": 16}, {light.id: 9.0, heavy.id: 90.0}),
        trial({"BLOCK_M": 64}, {light.id: 90.0, heavy.id: 9.0}),
    ]
    keep(workspace, result(kernel, [light, heavy], trials))
    entries = exported(workspace)["kernels"]["matmul"]["gpus"][0]["entries"]
    assert [one["config"]["BLOCK_M"] for one in entries] == [64]
    said = capsys.readouterr()
    assert "1 configuration of 1 kernel." in said.out
    assert "2 launches pass the same arguments and are fastest with 2 configurations" in said.err


@given(
    st.lists(
        st.tuples(st.sampled_from([64, 128]), st.sampled_from([1, 64, 128]), st.integers(1, 5), st.sampled_from([16, 64])),
        min_size=1, max_size=6,
    )
)  # fmt: skip
@settings(max_examples=40, deadline=None)
def test_no_two_entries_of_a_gpu_have_the_same_key(launches):
    kernel = kernel_of(MATMUL, "mm.py")
    made = []
    for stride, passed, count, block in launches:
        launch = launch_of(kernel, 64, arguments=[*matrices(stride), ("stride_am", passed)])
        made.append(TunedLaunch(
            kernel, launch.problem, {"BLOCK_M": block}, {"BLOCK_M": 32}, "sm_90", "NVIDIA H200", 9.0, 10.0 * count, "measured",
            dataclasses.replace(launch, count=count), {},
        ))  # fmt: skip
    entries = tuned_document(made)["kernels"]["matmul"]["gpus"][0]["entries"]
    assert entries
    assert len(set(keys(entries))) == len(entries)


# --- vLLM ---------------------------------------------------------------------------------------------------------------

BLOCKS = {"BLOCK_SIZE_M": 64, "BLOCK_SIZE_N": 64, "BLOCK_SIZE_K": 64, "GROUP_SIZE_M": 8}
TILES = "BLOCK_SIZE_M: tl.constexpr, BLOCK_SIZE_N: tl.constexpr, BLOCK_SIZE_K: tl.constexpr, GROUP_SIZE_M: tl.constexpr"
BODY = """
    i = tl.program_id(0) * BLOCK_SIZE_M + tl.arange(0, BLOCK_SIZE_M) + tl.program_id(1) % GROUP_SIZE_M
    j = tl.arange(0, BLOCK_SIZE_N)
    for k in range(0, K, BLOCK_SIZE_K):
        tl.store({c} + i[:, None] * N + j[None, :], 0.0)
"""
HEAD = "import triton\nimport triton.language as tl\n\n@triton.jit\n"
FP8 = (
    HEAD
    + f"def _w8a8_triton_block_scaled_mm(A, B, C, As, Bs, M, N, K, group_n, group_k, {TILES}):"
    + BODY.format(c="C")
)
MOE = (
    HEAD
    + "def fused_moe_kernel(a_ptr, b_ptr, c_ptr, N, K, EM, num_valid_tokens, group_n: tl.constexpr, group_k: tl.constexpr, "
    "MUL_ROUTED_WEIGHT: tl.constexpr, top_k: tl.constexpr, use_fp8_w8a8: tl.constexpr, "
    + TILES
    + "):"
    + BODY.format(c="c_ptr")
)


def vllm(folder, text, launches, trials=None, *, target=H200):
    (folder / "mm.py").write_text(text)
    kernel = kernel_of(text, "mm.py")
    made = [launch_of(kernel, 32, own=BLOCKS, arguments=arguments, flags=flags) for arguments, flags in launches]
    tried = [trial({"BLOCK_SIZE_M": 128, "num_warps": 8}, {one.id: 10.0 for one in made})]
    keep(folder, result(kernel, made, tried, target=target))


def fp8(m, n=7168, k=2048):
    square = Tensor((m, k), (k, 1), "float8_e4m3fn")
    tensors = [(name, square) for name in ("A", "B", "C", "As", "Bs")]
    return [*tensors, ("M", m), ("N", n), ("K", k), ("group_n", 128), ("group_k", 128)], ()


def moe(m, *, experts=8, rows=2 * 14336 // 2, second=False, fp8=False, blocks=(0, 0)):
    a, b = Tensor((m, 4096), (4096, 1), "bfloat16"), Tensor((experts, rows, 4096), (rows * 4096, 4096, 1), "bfloat16")
    arguments = [
        ("a_ptr", a),
        ("b_ptr", b),
        ("c_ptr", a),
        ("N", rows),
        ("K", 4096),
        ("EM", 2 * m),
        ("num_valid_tokens", 2 * m),
    ]
    flags = (
        ("group_n", blocks[0]),
        ("group_k", blocks[1]),
        ("MUL_ROUTED_WEIGHT", second),
        ("top_k", 1 if second else 2),
        ("use_fp8_w8a8", fp8),
    )
    return arguments, flags


def test_vllms_fp8_file_has_its_name_and_its_form(workspace):
    vllm(workspace, FP8, [fp8(1), fp8(64)])
    assert run(["export", "mm.py", "-o", "configs", "--style", "vllm"]) == 0
    path = workspace / "configs" / "N=7168,K=2048,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128,128].json"
    made = json.loads(path.read_text())
    assert list(made) == ["1", "64"]
    assert made["64"] == {
        "BLOCK_SIZE_M": 128, "BLOCK_SIZE_N": 64, "BLOCK_SIZE_K": 64, "GROUP_SIZE_M": 8, "num_warps": 8, "num_stages": 3,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({}, "E=8,N=7168,device_name=NVIDIA_H200.json"),
        ({"fp8": True}, "E=8,N=7168,device_name=NVIDIA_H200,dtype=fp8_w8a8.json"),
        ({"fp8": True, "blocks": (128, 128), "experts": 256, "rows": 4096},
         "E=256,N=2048,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128,128].json"),
    ],
)  # fmt: skip
def test_vllms_moe_file_is_named_by_the_second_weight_and_keyed_by_tokens(workspace, options, name):
    vllm(workspace, MOE, [moe(16, **options)])
    assert run(["export", "mm.py", "-o", "configs", "--style", "vllm"]) == 0
    assert [one.name for one in (workspace / "configs").iterdir()] == [name]
    assert list(json.loads((workspace / "configs" / name).read_text())) == ["16"]


def test_the_second_product_of_a_layer_and_other_gpus_names_are_told_apart(workspace, capsys):
    other = TargetInfo("local", "gpu", "NVIDIA H100 80GB HBM3", "580.1", "2.11.0", "3.6.0")
    vllm(workspace, MOE, [moe(16), moe(16, second=True)], target=other)
    assert run(["export", "mm.py", "-o", "configs", "--style", "vllm"]) == 0
    assert [one.name for one in (workspace / "configs").iterdir()] == [
        "E=8,N=7168,device_name=NVIDIA_H100_80GB_HBM3.json"
    ]
    assert "it is the second product of the layer" in capsys.readouterr().err


def test_what_vllm_has_no_use_for_is_told(workspace, capsys):
    kernel = kernel_of(MATMUL, "mm.py")
    keep(workspace, result(kernel, [launch_of(kernel, 64)], []))
    assert run(["export", "mm.py", "-o", "configs", "--style", "vllm"]) == 2
    err = capsys.readouterr().err
    assert "it has no BLOCK_SIZE_M" in err
    assert "there is nothing that vLLM could use. Export it with --style tritonforge" in err
    vllm(workspace, FP8, [fp8(1)], target=OFFLINE)
    assert run(["export", "mm.py", "-o", "configs", "--style", "vllm"]) == 2
    assert "only predicted" in capsys.readouterr().err


def test_one_file_may_have_another_name_and_several_may_not_be_one_file(workspace, capsys):
    vllm(workspace, FP8, [fp8(1)])
    assert run(["export", "mm.py", "-o", "mine.json", "--style", "vllm"]) == 0
    assert "vLLM looks for it under another name: N=7168" in capsys.readouterr().err
    vllm(workspace, FP8, [fp8(1), fp8(1, n=512)])
    assert run(["export", "mm.py", "-o", "mine.json", "--style", "vllm"]) == 2
    assert "Name a folder with -o." in capsys.readouterr().err
