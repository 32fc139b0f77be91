"""The space of launch parameters: what may be set, what is worth compiling, and in which order it is tried."""

from dataclasses import replace
from pathlib import Path

import pytest

from tritonforge.analysis import analyze
from tritonforge.domain.candidate import Candidate, Trial
from tritonforge.domain.finding import Bottleneck
from tritonforge.domain.launch import CallSite, Config, Launch, Problem, Scalar, Tensor
from tritonforge.domain.source import apply_edits
from tritonforge.rewrite import Refusal, RuleEngine, Task, parameter_space, proposals, rewrite_launch
from tritonforge.rewrite.plausibility import DotTiles, dot_tiles, implausible, is_plausible
from tritonforge.rewrite.space import neighbours

ROOT = Path(__file__).parent.parent.parent
GOLDEN = ROOT / "tests" / "golden" / "rewrite"


def _of(path, kernel, *, arguments=(), grid=(4096, 1, 1), **values):
    text = path.read_bytes().decode()
    found = next(k for k in analyze(text, "f.py").kernels if k.name == kernel)
    options = tuple((n, Scalar(v)) for n, v in values.items() if n.startswith("num_"))
    constexprs = tuple((n, Scalar(v)) for n, v in values.items() if not n.startswith("num_"))
    site = CallSite("f.py", found.launch_sites[0].range.start.line, "")
    return text, found, Launch("1", "f.py", kernel, Problem(tuple(arguments)), Config(constexprs, options, grid), site)


def _matmul(size=4096, dtype="float16", **values):
    tensors = [(n, Tensor((size, size), (size, 1), dtype)) for n in ("a_ptr", "b_ptr", "c_ptr")]
    scalars = [(n, Scalar(size)) for n in ("M", "N", "K")]
    config = {"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 32, "num_warps": 4, "num_stages": 3} | values
    grid = (-(-size // config["BLOCK_M"]), -(-size // config["BLOCK_N"]), 1)
    return _of(ROOT / "examples" / "matmul.py", "matmul_kernel", arguments=[*tensors, *scalars], grid=grid, **config)


def _line():
    tensor = ("x_ptr", Tensor((1 << 24,), (1,), "float32"))
    return _of(
        ROOT / "examples" / "scale_shift.py", "scale_shift_kernel",
        arguments=[tensor, ("n_elements", Scalar(1 << 24))], grid=(1 << 18, 1, 1), BLOCK_SIZE=64, num_warps=4, num_stages=3,
    )  # fmt: skip


def _row(n_cols=4096):
    tensor = ("x_ptr", Tensor((8192, n_cols), (n_cols, 1), "float32"))
    return _of(
        ROOT / "examples" / "row_softmax.py", "row_softmax_kernel",
        arguments=[tensor, ("n_cols", Scalar(n_cols))], grid=(8192, 1, 1), BLOCK=128, num_warps=1, num_stages=3,
    )  # fmt: skip


def _bottleneck(kind):
    return Bottleneck(kind, 0.9, "predicted")


def _proposals(case, kind="unknown", arch="sm_90", **kwargs):
    _, kernel, launch = case
    space = parameter_space(kernel, launch, (), _bottleneck(kind), arch)
    return list(proposals(space, kernel, launch, findings=(), bottleneck=_bottleneck(kind), arch=arch, **kwargs))


def test_the_tiles_of_a_dot_are_told_apart_by_axes_and_loops():
    assert dot_tiles(_matmul()[1]) == DotTiles("BLOCK_M", "BLOCK_N", "BLOCK_K")
    _, grouped, _ = _of(GOLDEN / "matmul_grouped" / "before.py", "mm_kernel", BLOCK_M=32)
    assert dot_tiles(grouped) == DotTiles("BLOCK_M", "BLOCK_N", "BLOCK_K")


def test_a_small_tile_is_answered_with_large_tiles_first():
    found = _proposals(_matmul(), "tile-too-small")
    assert 24 <= len(found) <= 40
    assert found[0] == {"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 64, "num_warps": 8, "num_stages": 4}
    assert all(v["BLOCK_M"] * v["BLOCK_N"] >= 64 * 128 for v in found[:8])


def test_a_small_block_is_answered_with_512_to_8192_elements_first():
    found = _proposals(_line(), "block-too-small")
    assert 12 <= len(found) <= 20
    assert all(512 <= v["BLOCK_SIZE"] <= 8192 for v in found[:8])
    assert all(set(v) == {"BLOCK_SIZE", "num_warps"} for v in found), "no loop loads, so that stages mean nothing"


def test_spills_are_answered_with_fewer_elements_a_thread():
    found = _proposals(_matmul(BLOCK_M=128, BLOCK_N=256, num_warps=4), "register-spill")
    now = 128 * 256 / 4
    assert all(v["BLOCK_M"] * v["BLOCK_N"] / v["num_warps"] < now for v in found[:5])


def test_latency_is_answered_with_stages_and_warps_of_the_same_tile_first():
    found = _proposals(_matmul(), "latency")
    assert all((v["BLOCK_M"], v["BLOCK_N"], v["BLOCK_K"]) == (32, 32, 32) for v in found[:4])
    assert {v["num_stages"] for v in found[:4]} != {3}


def test_large_tiles_come_last_where_they_would_leave_the_gpu_idle():
    found = _proposals(_matmul(512))
    assert found[0]["BLOCK_M"] * found[0]["BLOCK_N"] <= 64 * 64


def test_a_loop_with_loads_makes_stages_a_parameter():
    _, kernel, launch = _row()
    space = {p.name: p for p in parameter_space(kernel, launch, (), None, "sm_90")}
    assert set(space) == {"BLOCK", "num_warps", "num_stages"}
    assert space["BLOCK"].current == 128


def test_a_block_never_spans_more_than_the_row():
    assert max(v["BLOCK"] for v in _proposals(_row(1000))) == 1024


def test_a_tile_that_covers_a_row_is_fixed():
    _, kernel, launch = _of(GOLDEN / "value_row_tile" / "before.py", "row_kernel", BLOCK_SIZE=4096, num_warps=4)
    space = {p.name: p.values for p in parameter_space(kernel, launch, (), None, "sm_90")}
    assert space["BLOCK_SIZE"] == (4096,)
    found = list(
        proposals(
            parameter_space(kernel, launch, (), None, "sm_90"),
            kernel,
            launch,
            findings=(),
            bottleneck=None,
            arch="sm_90",
        )
    )
    assert found
    assert all(set(v) == {"num_warps"} for v in found)
    assert found[0] == {"num_warps": 16}, "eight elements a thread"


def test_nothing_can_be_set_on_an_autotuner_whose_configs_are_computed():
    _, kernel, launch = _of(GOLDEN / "autotune_helper_configs" / "before.py", "add_kernel", BLOCK=64, num_warps=4)
    assert parameter_space(kernel, launch, (), None, "sm_90") == ()
    (refusal,) = (step for step in _tuned_steps("autotune_helper_configs", launch) if isinstance(step, Refusal))
    assert "(what make_configs() returns)" in refusal.reason


def _tuned_steps(case, launch):
    text, kernel, _ = _of(GOLDEN / case / "before.py", "add_kernel", BLOCK=64, num_warps=4)
    task = Task(kernel, {kernel.file: text}, (launch,), (), {}, "sm_90")
    return list(RuleEngine().propose(task, ()))


def test_what_an_autotuner_lists_already_is_not_proposed_and_leaves_its_place_to_others():
    _, kernel, launch = _of(GOLDEN / "autotune_summed_configs" / "before.py", "add_kernel", BLOCK=64, num_warps=4)
    space = parameter_space(kernel, launch, (), None, "sm_90")
    found = list(proposals(space, kernel, launch, findings=(), bottleneck=None, arch="sm_90"))
    pairs = {(one["BLOCK"], one["num_warps"]) for one in found}
    assert not pairs & {(64, 4), (128, 4), (512, 4), (512, 8), (1024, 4), (1024, 8)}
    assert {(256, 4), (2048, 8)} & pairs
    near = list(neighbours({"BLOCK": 512, "num_warps": 2}, space, kernel, launch, "sm_90"))
    assert near
    assert not any((one["BLOCK"], one["num_warps"]) == (512, 4) for one in near)
    made = [step for step in _tuned_steps("autotune_summed_configs", launch) if not isinstance(step, Refusal)]
    assert any(one.title.startswith("BLOCK=2048") for one in made)


@pytest.mark.parametrize("arch", ["sm_80", "sm_89", "sm_90", "sm_100", "gfx942", "sm_999"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "int8"])
def test_every_proposal_is_plausible_new_and_the_same_each_time(arch, dtype):
    case = _matmul(dtype=dtype)
    found = _proposals(case, arch=arch)
    _, kernel, launch = case
    assert found
    assert found == _proposals(case, arch=arch)
    assert len({tuple(sorted(v.items())) for v in found}) == len(found)
    assert all(is_plausible(v, kernel, launch, arch) for v in found)
    now = {"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 32, "num_warps": 4, "num_stages": 3}
    assert now not in found


@pytest.mark.parametrize(
    ("values", "arch", "reason"),
    [
        ({"BLOCK_M": 48}, "sm_90", "power of two"),
        ({"BLOCK_K": 8}, "sm_90", "least of a dot"),
        ({"num_warps": 3}, "sm_90", "num_warps=3"),
        ({"num_stages": 9}, "sm_90", "num_stages=9"),
        ({"BLOCK_M": 512, "BLOCK_N": 512}, "sm_90", "registers"),
        ({"BLOCK_M": 256, "BLOCK_N": 256, "num_warps": 4}, "sm_90", "accumulator"),
        ({"BLOCK_M": 16, "BLOCK_N": 16, "num_warps": 16}, "sm_90", "idle"),
        ({"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 64, "num_warps": 8, "num_stages": 4}, "sm_89", "shared memory"),
        ({"BLOCK_K": 8192}, "sm_90", "more than there is"),
    ],
)
def test_what_cannot_work_is_known_before_compiling(values, arch, reason):
    _, kernel, launch = _matmul()
    assert reason in (implausible(values, kernel, launch, arch) or "")


def test_a_grid_that_no_gpu_starts_is_known_before_compiling():
    """Along y and z 65,535 programs are the most; along x there is room."""
    _, kernel, launch = _matmul(size=1_500_000)
    assert implausible({"BLOCK_N": 16}, kernel, launch, "sm_90") == "BLOCK_N=16 makes a grid of 93750 programs along y"
    assert implausible({"BLOCK_M": 16}, kernel, launch, "sm_90") is None
    assert implausible({"BLOCK_N": 64}, kernel, launch, "sm_90") is None


def test_the_best_known_shape_fits_an_h200():
    _, kernel, launch = _matmul()
    best = {"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 64, "num_warps": 8, "num_stages": 4}
    assert implausible(best, kernel, launch, "sm_90") is None


def test_the_engine_yields_applicable_candidates_lazily_and_not_twice():
    text, kernel, launch = _matmul()
    task = Task(kernel, {"f.py": text}, (launch,), (), {"1": _bottleneck("tile-too-small")})
    found = list(RuleEngine().propose(task))
    assert all(isinstance(c, Candidate) for c in found)
    assert len({apply_edits(text, c.edits) for c in found}) == len(found)
    tried = Trial(found[0], None, None)
    assert found[0].edits not in [c.edits for c in RuleEngine().propose(task, [tried]) if isinstance(c, Candidate)]


def test_once_something_was_accepted_the_engine_looks_around_it_first():
    text, kernel, launch = _matmul()
    task = Task(kernel, {"f.py": text}, (launch,))
    first = next(iter(RuleEngine().propose(task)))
    assert isinstance(first, Candidate)
    trials = [Trial(first, None, {"1": 100.0}, accepted=True)]
    titles = [c.title for c in RuleEngine().propose(task, trials) if isinstance(c, Candidate)]
    assert first.title not in titles
    around = dict(first.rewrites)["launch-parameters"]
    for title in titles[:5]:
        same = sum(f"{name}={value}" in title for name, value in around)
        assert same >= len(around) - 2, title


def test_the_engine_says_once_why_it_cannot():
    path = GOLDEN / "value_conditional" / "before.py"
    text, kernel, launch = _of(path, "add_kernel", BLOCK=64, num_warps=4)
    task = Task(kernel, {"f.py": text}, (launch,))
    refusals = [c.reason for c in RuleEngine().propose(task) if isinstance(c, Refusal)]
    assert len(refusals) == len(set(refusals))
    without = list(RuleEngine().propose(Task(kernel, {"f.py": text}, ())))
    assert without == [Refusal("No launch of add_kernel is known, so that there is nothing to start from.")]


def _split(**values):
    config = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32, "SPLIT_K": 4, "num_warps": 4, "num_stages": 3} | values
    tensors = [(n, Tensor((256, 16384), (16384, 1), "float16")) for n in ("a_ptr", "b_ptr")]
    scalars = [(n, Scalar(v)) for n, v in {"M": 256, "N": 1024, "K": 16384}.items()]
    grid = (256 // config["BLOCK_M"], 1024 // config["BLOCK_N"], config["SPLIT_K"])
    return _of(
        GOLDEN / "split_shared_constant" / "before.py", "mm_kernel", arguments=[*tensors, *scalars], grid=grid, **config
    )


def test_a_count_of_parts_goes_with_each_tile_so_that_programs_fill_the_gpu():
    wanted = _proposals(_split(), "tile-too-small")
    first = [v for v in wanted if (v["BLOCK_M"], v["BLOCK_N"], v["BLOCK_K"], v["num_stages"]) == (128, 256, 64, 4)]
    assert [v["SPLIT_K"] for v in first] == [16, 32], (
        "8 tiles: 128 programs on 132 SMs, and 256; of today's 4 parts most SMs idle"
    )
    assert {v["BLOCK_K"] for v in wanted} >= {32, 64, 128}, "the grid does not depend on it"
    assert all(v["SPLIT_K"] * v["BLOCK_K"] <= 16384 for v in wanted)
    (text, kernel, launch) = _split()
    step = rewrite_launch(kernel, {"f.py": text}, first[0], launch)
    assert isinstance(step, Candidate), step


def test_around_the_best_a_tile_and_the_parts_change_together():
    _, kernel, launch = _split()
    space = parameter_space(kernel, launch, (), _bottleneck("tile-too-small"), "sm_90")
    best = {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "SPLIT_K": 8, "num_warps": 8, "num_stages": 3}
    near = list(neighbours(best, space, kernel, launch, "sm_90"))
    assert best | {"SPLIT_K": 16} in near
    assert best | {"BLOCK_K": 128} in near
    assert best | {"BLOCK_N": 256, "SPLIT_K": 16} in near
    assert best | {"BLOCK_N": 64, "SPLIT_K": 4} in near


def test_a_count_of_parts_that_the_grid_does_not_have_is_left_alone():
    case = _split()
    _, kernel, launch = case
    other = replace(launch, config=replace(launch.config, grid=(4, 16, 8)))
    wanted = _proposals((case[0], kernel, other), "tile-too-small")
    assert wanted
    assert not any("SPLIT_K" in v for v in wanted)


def test_tiles_in_a_dict_that_the_launch_spreads_and_the_grid_reads_are_tried():
    case = _of(
        GOLDEN / "value_kwargs_dict_read_by_the_grid" / "before.py", "mm_kernel",
        arguments=[("a_ptr", Tensor((4096, 4096), (4096, 1), "float8_e4m3fn")), ("M", Scalar(4096)), ("N", Scalar(4096)),
                   ("K", Scalar(4096))],
        grid=(64, 64, 1), BLOCK_M=64, BLOCK_N=64, BLOCK_K=32, num_warps=4, num_stages=3,
    )  # fmt: skip
    assert (128, 128) in {(v["BLOCK_M"], v["BLOCK_N"]) for v in _proposals(case, "shared-memory")}


def test_where_hardly_any_tile_can_be_set_after_all_warps_and_stages_are_searched_in_full():
    text, kernel, launch = _of(
        GOLDEN / "value_kwargs_dict_set_again" / "before.py", "mm_kernel",
        arguments=[("a_ptr", Tensor((4096, 4096), (4096, 1), "float16")), *((n, Scalar(4096)) for n in ("M", "N", "K"))],
        grid=(64, 64, 1), BLOCK_M=64, BLOCK_N=64, BLOCK_K=32, num_warps=4, num_stages=3,
    )  # fmt: skip
    task = Task(kernel, {"f.py": text}, (launch,), (), {"1": _bottleneck("tile-too-small")}, arch="sm_90")
    steps = list(RuleEngine(()).propose(task))
    made = [dict(values) for step in steps if isinstance(step, Candidate) for _, values in step.rewrites]
    assert any("may be hidden in **meta" in step.reason for step in steps if isinstance(step, Refusal))
    assert len({(v.get("num_warps"), v.get("num_stages")) for v in made}) > 12
    assert {v.get("BLOCK_N", "64") for v in made} == {"64"}
