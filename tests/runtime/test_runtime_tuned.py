"""`tuned`: what it chooses, what it leaves alone, and that it launches as the kernel does, also in Triton's interpreter."""

# ruff: noqa: N803 - kernels name their sizes in capitals

from __future__ import annotations

import copy
import json
import pickle
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from tritonforge.runtime import Tuned, TuningFileError, tuned
from tritonforge.runtime.devices import DeviceInfo, device_info
from tritonforge.runtime.first_batch import measure_configs

ROOT = Path(__file__).parents[2]


def entry(m, n, block, dtype="float16", flag=None, **more):
    sizes = {"M": m, "N": n}
    dtypes = {"x_ptr": dtype}
    return {
        "sizes": sizes,
        "dtypes": dtypes,
        "flags": {"ACT": flag},
        "config": {"BLOCK": block, "num_warps": 4, **more},
        "time_us": 1.0,
    }


def document(**changes):
    kernel = {
        "keys": {"sizes": ["M", "N"], "dtypes": ["x_ptr"], "flags": ["ACT"]},
        "tunes": ["BLOCK", "num_warps"],
        "fallback": {"BLOCK": 16, "num_warps": 1},
        "gpus": [
            {"gpu": "", "arch": "sm_80", "entries": [entry(64, 64, 8)]},
            {"gpu": "NVIDIA H200", "arch": "sm_90", "entries": [
                entry(64, 64, 32), entry(4096, 64, 128), entry(64, 64, 64, flag="relu"), entry(64, 64, 256, dtype="float32"),
            ]},
        ],
        **changes,
    }  # fmt: skip
    return {"schema": "tritonforge-tuned/1", "kernels": {"scale": kernel}}


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "scale.tuned.json"
    path.write_text(json.dumps(document()))
    return path


class Dtype:
    def __init__(self, name):
        self.name = name

    def __str__(self):
        return f"torch.{self.name}"


HALF, FLOAT = Dtype("float16"), Dtype("float32")


class FakeTensor(SimpleNamespace):
    """As much of a tensor as choosing looks at."""

    def __init__(self, dtype=HALF, device="gpu0", values=0):
        super().__init__(dtype=dtype, device=device, values=values)

    def numel(self):
        return 7

    def clone(self):
        return FakeTensor(self.dtype, self.device, self.values)

    def copy_(self, other):
        self.values = other.values

    def __hash__(self):
        return id(self)


class FakeKernel:
    """Launches nothing and remembers with what it was launched."""

    def __init__(self, function):
        self.fn = function
        self.launches = []
        self.arg_names = ["x_ptr", "M", "N", "ACT", "BLOCK"]

    def run(self, *args, grid, warmup, **kwargs):
        extents = grid({**kwargs}) if callable(grid) else grid
        self.launches.append((args, extents, warmup, kwargs))
        return self.launches[-1]

    def warmup(self, *args, grid, **kwargs):
        return self.run(*args, grid=grid, warmup=True, **kwargs)

    def __call__(self, *args, **kwargs):
        raise RuntimeError("Cannot call @triton.jit'd outside of the scope of a kernel")


def on(name="NVIDIA H200", arch="sm_90"):
    return lambda _: DeviceInfo(name, arch)


def make(file, **options):
    def scale(x_ptr, M, N, ACT=None, BLOCK=None):
        """Scale."""

    kernel = FakeKernel(scale)
    return tuned(file, **{"name": "scale", "device": on(), **options})(kernel), kernel


X = FakeTensor()


@pytest.mark.parametrize(
    ("gpu", "arguments", "block"),
    [
        (on(), (X, 64, 64, None), 32),  # exactly
        (on(), (X, 4000, 70, None), 128),  # the nearest, by factors
        (on(), (X, 1, 1, None), 32),
        (on(), (X, 512, 64, None), 128),  # as near to both: the larger one
        (on(), (X, 64, 64, "relu"), 64),
        (on(), (FakeTensor(FLOAT), 64, 64, None), 256),
        (on(), (X, 64, 64, "gelu"), 16),  # a flag that was never tuned: what the source said
        (on(), (FakeTensor(Dtype("int8")), 64, 64, None), 16),
        (on("NVIDIA H100 80GB HBM3", "sm_90"), (X, 64, 64, None), 32),  # another GPU of the architecture
        (on("NVIDIA A100", "sm_80"), (X, 64, 64, None), 8),  # only predicted
        (on("AMD Instinct MI300X", "gfx942"), (X, 64, 64, None), 16),
        (on(None, None), (X, 64, 64, None), 16),  # no GPU: the interpreter
    ],
)
def test_what_is_chosen(file, gpu, arguments, block):
    kernel, fake = make(file, device=gpu)
    for _ in range(2):  # the second time from memory
        kernel[(1,)](*arguments)
    assert [launch[3]["BLOCK"] for launch in fake.launches] == [block, block]


def test_positions_names_defaults_and_both_choose_alike(file):
    kernel, fake = make(file)
    kernel[(1,)](X, 64, 64, None)
    kernel[(1,)](X, 64, N=64)
    kernel[(1,)](x_ptr=X, M=64, N=64, ACT=None)
    kernel.run(X, 64, 64, grid=(1,), warmup=False)
    kernel.run(X, 64, 64, grid=(1,))
    assert {launch[3]["BLOCK"] for launch in fake.launches} == {32}
    assert fake.launches[1][3]["N"] == 64


def test_the_grid_sees_what_was_chosen(file):
    kernel, _ = make(file)
    _, extents, warmup, kwargs = kernel[lambda meta: (1024 // meta["BLOCK"], 1)](X, 4096, 64, None)
    assert (extents, warmup, kwargs) == ((8, 1), False, {"BLOCK": 128, "num_warps": 4})


def test_what_a_launch_gives_itself_is_left_alone(file):
    kernel, fake = make(file)
    for _ in range(2):
        kernel[(1,)](X, 64, 64, None, BLOCK=2)
        kernel[(1,)](X, 64, 64, None, 2, num_warps=8)
        kernel[(1,)](X, 64, 64, None, 2)
    assert [launch[3] for launch in fake.launches[:3]] == [
        {"BLOCK": 2, "num_warps": 4},
        {"num_warps": 8},
        {"num_warps": 4},
    ]
    assert fake.launches[3:] == fake.launches[:3]


def test_pick_says_what_would_be_chosen(file):
    kernel, fake = make(file)
    assert kernel.pick(X, 4096, 64) == {"BLOCK": 128, "num_warps": 4}
    assert fake.launches == []


def test_it_looks_like_the_kernel(file):
    kernel, fake = make(file)
    assert isinstance(kernel, Tuned)
    assert (kernel.__name__, kernel.__doc__) == ("scale", "Scale.")
    assert kernel.arg_names is fake.arg_names
    assert kernel.fn is fake.fn
    assert kernel.warmup(X, 64, 64, grid=(1,))[2] is True
    assert not hasattr(kernel, "no_such_attribute")
    with pytest.raises(RuntimeError, match="outside of the scope"):
        kernel(1)


def test_it_is_pickled_by_name_and_copied_as_itself_as_a_function_is(file, monkeypatch):
    kernel, _ = make(file)
    assert copy.deepcopy({"kernel": kernel})["kernel"] is kernel
    assert copy.copy(kernel) is kernel
    with pytest.raises((pickle.PicklingError, AttributeError), match="local"):
        pickle.dumps(kernel)
    kernel.__qualname__ = "a_tuned_kernel"
    monkeypatch.setattr(sys.modules[__name__], "a_tuned_kernel", kernel, raising=False)
    assert pickle.loads(pickle.dumps(kernel)) is kernel


def test_many_threads_choose_alike(file):
    kernel, fake = make(file)
    threads = [
        threading.Thread(target=lambda i=i: [kernel[(1,)](X, 64 + (i + j) % 50, 64, None) for j in range(200)])
        for i in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(fake.launches) == 1600
    assert {launch[3]["BLOCK"] for launch in fake.launches} == {32}


def test_sizes_that_never_come_again_do_not_fill_the_memory(file, monkeypatch):
    from tritonforge.runtime import tuning

    monkeypatch.setattr(tuning, "_MOST_KEYS", 10)
    kernel, _ = make(file)
    for m in range(100):
        kernel[(1,)](X, m, 64, None)
    assert len(kernel._configs) <= 10


def test_a_size_may_be_the_number_of_elements(tmp_path):
    path = tmp_path / "t.json"
    sized = {"sizes": {"x_ptr.numel": 8}, "dtypes": {"x_ptr": "float16"}, "flags": {}, "config": {"BLOCK": 4}}
    data = document(keys={"sizes": ["x_ptr.numel"], "dtypes": ["x_ptr"], "flags": []}, tunes=["BLOCK"],
                    gpus=[{"gpu": "NVIDIA H200", "arch": "sm_90", "entries": [sized]}])  # fmt: skip
    path.write_text(json.dumps(data))
    kernel, _ = make(path)
    assert kernel[(1,)](X, 1, 1)[3] == {"BLOCK": 4}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (None, "does not exist. Make it: tritonforge export FILE.py::scale -o "),
        ("{", "is damaged: it is not JSON"),
        ("[]", "was not written by tritonforge export"),
        ('{"schema": "tritonforge-tuned/2"}', "was written by a newer TritonForge (tritonforge-tuned/2)"),
        ('{"schema": "tritonforge-tuned/1"}', "is damaged (KeyError('kernels'))"),
        (
            '{"schema": "tritonforge-tuned/1", "kernels": {"other": {}}}',
            "has nothing for the kernel scale; it has: other.",
        ),
        (json.dumps(document(keys={"sizes": ["K"], "dtypes": [], "flags": []}, gpus=[])), "it has no parameter K"),
    ],
)
def test_a_wrong_file_is_told_when_the_kernel_is_decorated(tmp_path, text, says):
    path = tmp_path / "t.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(TuningFileError) as caught:
        make(path)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def with_entry(**changes):
    entry_ = {**entry(64, 64, 32), **changes}
    return document(gpus=[{"gpu": "NVIDIA H200", "arch": "sm_90", "entries": [entry_]}])


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (with_entry(sizes={"M": "many", "N": 64}), "is damaged: the size M is 'many'"),
        (with_entry(sizes={"M": -5, "N": 64}), "the size M is -5"),
        (with_entry(sizes={"M": 10**400, "N": 64}), "the size M is a huge number"),
        (with_entry(sizes={"M": float("nan"), "N": 64}), "is damaged: it is not JSON"),
        (with_entry(config={"BLOCK": float("inf")}), "is damaged: it is not JSON"),
        (with_entry(config={"BLOCK": [32]}), "'BLOCK' is [32]"),
        (with_entry(config={"BLOCK": 32, "num_warps": -4}), "num_warps is -4"),
        (with_entry(config={"BLOCK": 32, "grid": 1}), "sets 'grid', which is not among tunes"),
        (with_entry(config={"BLOCK": 32, "x_ptr": 0}), "sets 'x_ptr', which is not among tunes"),
        (with_entry(config=None), "a configuration is no object"),
        (document(fallback=[["BLOCK", 16]]), "a configuration is no object"),
        (document(tunes=["BLOCK", "warmup", "num_warps"]), "it tunes warmup"),
        (document(tunes=["BLOCK", "M", "num_warps"]), "it tunes M"),
        (document(tunes="BLOCK"), "tunes is no list of names"),
        (document(keys={"sizes": "MN", "dtypes": [], "flags": []}), "sizes is no list of names"),
    ],
)
def test_numbers_and_names_that_no_launch_could_take_are_told_before_any_launch(tmp_path, data, says):
    (tmp_path / "t.json").write_text(json.dumps(data))
    with pytest.raises(TuningFileError) as caught:
        make(tmp_path / "t.json")
    assert says in str(caught.value)
    assert str(caught.value).endswith("Make it anew with tritonforge export.")
    (tmp_path / "t.json").write_text("[" * 100_000)
    with pytest.raises(TuningFileError, match="is not JSON"):
        make(tmp_path / "t.json")


def test_it_is_found_beside_the_kernel(tmp_path, monkeypatch):
    (tmp_path / "kernels.tuned.json").write_text(json.dumps(document()))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    namespace = {}
    exec(compile("def scale(x_ptr, M, N, ACT=None, BLOCK=None): pass", str(tmp_path / "kernels.py"), "exec"), namespace)
    assert tuned("kernels.tuned.json", device=on())(FakeKernel(namespace["scale"])).tuning.name == "scale"


def test_what_is_no_kernel_or_tuned_already_is_refused(file):
    class Autotuner(FakeKernel):
        pass

    def scale(x_ptr, M, N, ACT=None, BLOCK=None):
        pass

    with pytest.raises(TypeError, match=r"takes the place of @triton\.autotune"):
        tuned(file)(Autotuner(scale))
    with pytest.raises(TypeError, match=r"stands above @triton\.jit"):
        tuned(file)(scale)
    with pytest.raises(TypeError, match="not int"):
        tuned(file)(7)


# --- the first batch ---------------------------------------------------------------------------------------------------


def timing(monkeypatch, times):
    """Let launches take as long as `times` says of their BLOCK; a BLOCK that is not there cannot be launched."""
    from tritonforge.runtime import first_batch, tuning

    measured = []

    def measure(launch, configs, arguments):
        def timer(work):
            block = work()[3]["BLOCK"]
            measured.append(block)
            return times[block]

        return measure_configs(launch, configs, arguments, timer)

    monkeypatch.setattr(tuning, "measure_configs", measure)
    assert first_batch.measure_configs is measure_configs
    return measured


def test_the_first_launch_of_new_sizes_is_measured_once_and_remembered(file, tmp_path, monkeypatch):
    measured = timing(monkeypatch, {16: 9.0, 32: 5.0, 128: 2.0, 64: 3.0})  # 256 does not launch
    options = {"measure": True, "remember": tmp_path / "remembered.json"}
    kernel, fake = make(file, **options)
    kernel[(1,)](X, 100, 100, None)
    assert fake.launches[-1][3]["BLOCK"] == 128
    assert set(measured) == {16, 32, 64, 128, 256}
    count = len(measured)
    kernel[(1,)](X, 100, 100, None)
    kernel[(1,)](X, 64, 64, None)  # the file has these
    assert len(measured) == count
    assert fake.launches[-1][3]["BLOCK"] == 32
    again, fake = make(file, **options)  # the next start
    again[(1,)](X, 100, 100, None)
    assert len(measured) == count
    assert fake.launches[-1][3]["BLOCK"] == 128


def test_tensors_are_as_they_were_before_every_launch_and_at_the_end():
    tensor = FakeTensor(values=5)
    seen = []

    def launch(config):
        seen.append(tensor.values)
        tensor.values = -1
        if config["BLOCK"] == 2:
            raise RuntimeError("out of resource: shared memory")

    def timer(work):
        work()
        return 1.0

    assert measure_configs(launch, [{"BLOCK": 2}, {"BLOCK": 4}], [tensor, 7, None], timer) == {"BLOCK": 4}
    assert set(seen) == {5}
    assert tensor.values == 5


def test_what_cannot_be_put_back_is_not_measured():
    class Stubborn(FakeTensor):
        def copy_(self, other):
            raise RuntimeError("Inplace update to inference tensor outside InferenceMode is not allowed.")

    assert measure_configs(lambda _: pytest.fail("launched"), [{"BLOCK": 2}], [Stubborn()], lambda work: work()) is None


def test_what_was_remembered_for_another_kernel_or_another_file_is_measured_again(file, tmp_path, monkeypatch):
    measured = timing(monkeypatch, {16: 9.0, 32: 5.0, 128: 2.0, 64: 3.0, 7: 1.0})
    remembered = tmp_path / "remembered.json"
    options = {"measure": True, "remember": remembered}
    make(file, **options)[0][(1,)](X, 100, 100, None)
    other = json.loads(file.read_text())
    other["kernels"]["scale_two"] = document(gpus=[], fallback={"BLOCK": 7})["kernels"]["scale"]
    file.write_text(json.dumps(other))
    kernel, fake = make(file, name="scale_two", **options)
    kernel[(1,)](X, 100, 100, None)
    assert fake.launches[-1][3]["BLOCK"] == 7
    count = len(measured)
    remembered.write_text(remembered.read_text().replace("128", "1000000"))  # of a file that knew other blocks
    kernel, fake = make(file, **options)
    kernel[(1,)](X, 100, 100, None)
    assert len(measured) > count
    assert fake.launches[-1][3]["BLOCK"] == 128


def test_asking_first_does_not_keep_a_launch_from_measuring(file, tmp_path, monkeypatch):
    timing(monkeypatch, {16: 1.0, 32: 5.0, 128: 2.0, 64: 3.0, 256: 4.0})
    kernel, fake = make(file, measure=True, remember=tmp_path / "r.json")
    assert kernel.pick(X, 100, 100, None)["BLOCK"] == 32
    kernel.run(X, 100, 100, None, grid=(1,), warmup=True)
    kernel[(1,)](X, 100, 100, None)
    assert fake.launches[-1][3]["BLOCK"] == 16


def test_nothing_is_measured_without_a_gpu(file, tmp_path):
    kernel, fake = make(file, measure=True, remember=tmp_path / "r.json")
    kernel[(1,)](X, 100, 100, None)
    assert fake.launches[-1][3]["BLOCK"] == 32
    assert not (tmp_path / "r.json").exists()


def test_a_memory_that_cannot_be_written_or_read_costs_time_only(file, tmp_path, monkeypatch):
    timing(monkeypatch, {16: 1.0, 32: 5.0, 128: 2.0, 64: 3.0, 256: 4.0})
    (tmp_path / "file").write_text("not JSON")
    kernel, fake = make(file, measure=True, remember=tmp_path / "file" / "r.json")
    with pytest.warns(UserWarning, match="it is measured again next time"):
        kernel[(1,)](X, 100, 100, None)
    assert fake.launches[-1][3]["BLOCK"] == 16
    kernel, fake = make(file, measure=True, remember=tmp_path / "file")
    kernel[(1,)](X, 100, 100, None)
    assert fake.launches[-1][3]["BLOCK"] == 16


def test_a_tensor_that_is_on_no_gpu_is_on_none():
    assert device_info(SimpleNamespace(type="cpu")) == DeviceInfo()
    assert device_info(7) == DeviceInfo()


# --- Triton -----------------------------------------------------------------------------------------------------------

PROGRAM = """
import os, sys
os.environ["TRITON_INTERPRET"] = "1"
import torch, triton
import triton.language as tl
from tritonforge.runtime import tuned
from tritonforge.runtime.devices import DeviceInfo

@tuned(sys.argv[1], device=lambda _: DeviceInfo("NVIDIA H200", "sm_90"))
@triton.heuristics({"EVEN": lambda args: args["M"] % args["BLOCK"] == 0})
@triton.jit
def scale(x_ptr, M, N, ACT: tl.constexpr, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if EVEN:
        tl.store(x_ptr + i, 2 * tl.load(x_ptr + i))
    else:
        tl.store(x_ptr + i, 2 * tl.load(x_ptr + i, mask=i < M), mask=i < M)

for M in (64, 100, 4096):
    x = torch.ones(M, dtype=torch.float16)
    seen = []
    def grid(meta):
        seen.append(meta["BLOCK"])
        return (triton.cdiv(M, meta["BLOCK"]),)
    scale[grid](x, M, 64, ACT=None)
    scale.run(x, M, 64, None, grid=grid, warmup=False)
    assert (x == 4).all(), M
    print(M, *set(seen))

from types import SimpleNamespace
from tritonforge.runtime.first_batch import measure_configs
weight = torch.nn.Parameter(torch.ones(4))
hidden = weight * 2.0  # autograd keeps it, and would refuse to go back through what was written to
result = hidden.exp().sum()
shared = torch.full((1,), 3.0)
described = SimpleNamespace(base=torch.full((2,), 5.0), block_shape=[2])
pair = (torch.full((2,), 7.0), 1)
inside = [weight.data, hidden.data, shared, described.base, pair[0]]
before = [one.clone() for one in inside]

def launch(_):
    for one in inside:
        one.add_(1.0)

def timer(work):
    work()
    return 1.0

arguments = [weight, hidden, shared.expand(8), described, pair]
assert measure_configs(launch, [{"BLOCK": 2}], arguments, timer) == {"BLOCK": 2}
print("put back" if all(torch.equal(one, other) for one, other in zip(inside, before)) else inside)
result.backward()
"""


@pytest.mark.triton
def test_it_launches_in_tritons_interpreter_and_with_heuristics_and_puts_tensors_back(file, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(PROGRAM))
    done = subprocess.run([sys.executable, program, file], capture_output=True, text=True, check=False, timeout=250)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n") == ["64 32", "100 32", "4096 128", "put back", ""]


def test_it_imports_nothing_but_the_standard_library():
    code = "import sys; import tritonforge.runtime; print(*sorted({m.partition('.')[0] for m in sys.modules if not m.startswith('_')} - set(sys.stdlib_module_names)))"
    done = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, check=True,
                          env={"PYTHONPATH": str(ROOT / "server")})  # fmt: skip
    assert done.stdout.split() == ["tritonforge"]


COMPILED = """
import sys
import torch, triton
import torch.utils._triton
import triton.language as tl
from tritonforge.runtime import tuned
from tritonforge.runtime.devices import DeviceInfo

torch.utils._triton.has_triton = lambda: True  # what torch finds where there is a GPU; nothing is launched here

@tuned(sys.argv[1], device=lambda _: DeviceInfo("NVIDIA H200", "sm_90"))
@triton.jit
def scale(x_ptr, M, N, ACT: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + i, 2 * tl.load(x_ptr + i, mask=i < M), mask=i < M)

def double(x):
    y = x + 1
    scale[lambda meta: (triton.cdiv(y.numel(), meta["BLOCK"]),)](y, y.numel(), N=64, ACT=None)
    return y

def backend(graph, inputs):
    (launch,) = [node for node in graph.graph.nodes if "triton_kernel_wrapper" in str(node.target)]
    from torch._higher_order_ops.triton_kernel_wrap import kernel_side_table
    print(launch.kwargs["grid"][0][0], kernel_side_table.get_constant_args(launch.kwargs["constant_args_idx"])["BLOCK"])
    return lambda *arguments: [arguments[0]]

torch.compile(double, backend=backend, fullgraph=True)(torch.ones(4096, dtype=torch.float16))
"""


@pytest.mark.triton
def test_torch_compile_takes_a_tuned_launch_into_its_graph(file, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(COMPILED))
    done = subprocess.run([sys.executable, program, file], capture_output=True, text=True, check=False, timeout=250)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "32 128\n"
