"""Reading a Nsight Compute report: through NVIDIA's module, through ncu's CSV pages, and when it is none."""

import lzma
import math
import os
from pathlib import Path

import pytest
from profiling_nsight_golden import FOLDER, derive, kept, unpack_report

from tritonforge.domain.counters import NOT_STALLED
from tritonforge.profiling.nsight import ReportError, counters_of, finding, isolated, read, read_report
from tritonforge.profiling.nsight.metrics import METRICS, reason, scaled
from tritonforge.profiling.nsight.opcodes import lane_flops, split, warp_flops
from tritonforge.profiling.nsight.pages import number, parse_pages
from tritonforge.profiling.nsight.placing import kernel_file, user_lines

needs_module = pytest.mark.skipif(not isolated.has_module(), reason="needs NVIDIA's ncu_report")


def page(name: str) -> str:
    return lzma.decompress((FOLDER / f"two_kernels.{name}.csv.xz").read_bytes()).decode()


@pytest.fixture(scope="module")
def counters():
    return kept()


@pytest.fixture(scope="module")
def by_pages():
    return parse_pages(page("raw"), page("sass"), page("lines"))


@needs_module
def test_the_kept_counters_are_those_of_the_report(tmp_path, counters):
    read_now = derive(unpack_report(tmp_path))
    assert list(read_now) == list(counters)
    assert read_now == counters


@needs_module
def test_csv_pages_and_the_module_say_the_same(tmp_path, by_pages):
    path = tmp_path / "two.ncu-rep"
    path.write_bytes(lzma.decompress((FOLDER / "two_kernels.ncu-rep.xz").read_bytes()))
    by_module = read_report(path)
    assert [one.name for one in by_module] == [one.name for one in by_pages] == ["rowsum", "mm"]
    for module, pages in zip(by_module, by_pages, strict=True):
        assert (module.grid, module.block, module.device) == (pages.grid, pages.block, pages.device)
        assert module.metrics == pytest.approx(pages.metrics, rel=1e-3)
        first, second = counters_of(module), counters_of(pages)
        assert first.lines == second.lines
        assert first.metrics == pytest.approx(second.metrics, rel=1e-3)
        assert first.stalls == pytest.approx(second.stalls)


def test_a_softmax_reads_and_writes_each_element_once(by_pages):
    softmax = counters_of(by_pages[0])
    elements = 8192 * 4000
    assert softmax.metrics["global_sectors"] == pytest.approx(2 * 4 * elements / 32, rel=0.01)
    assert softmax.metrics["excess_global_sectors"] == 0
    assert softmax.metrics["time_us"] == pytest.approx(61.3, abs=0.1)
    loads, stores = softmax.lines[6], softmax.lines[9]
    assert loads.sectors == stores.sectors
    assert max(softmax.lines.values(), key=lambda line: line.samples) == stores


def test_every_flop_of_a_matrix_product_is_counted(counters):
    for name in ("matmul_small_tile", "matmul_spilling", "matmul_good", "matmul_b_column_major"):
        assert counters[name].metrics["tensor_flops.fp16"] == 2 * 4096**3
    assert counters["matmul_ieee_fp32"].metrics["scalar_flops"] == pytest.approx(2 * 4096**3, rel=0.01)
    assert counters["matmul_ieee_fp32"].metrics["tensor_flops"] == 0


def test_shares_are_shares_and_lines_add_up_to_the_launch(counters):
    units = {metric.name: metric.unit for metric in METRICS}
    for name, one in counters.items():
        assert sum(one.stalls.values()) == pytest.approx(1.0)
        for metric, value in one.metrics.items():
            assert math.isfinite(value), (name, metric)
            assert value >= 0, (name, metric)
            if units.get(metric) == "share":
                assert value <= 1.001, (name, metric)
        assert sum(line.executed for line in one.lines.values()) == one.metrics["instructions"]
        assert sum(line.sectors for line in one.lines.values()) == one.metrics["global_sectors"]
        assert one.missing == ()


def test_what_the_cases_are_known_for_is_in_their_counters(counters):
    assert (
        counters["copy_strided"].metrics["excess_global_sectors"]
        > 0.7 * counters["copy_strided"].metrics["global_sectors"]
    )
    assert counters["transpose_naive"].metrics["excess_global_sectors"] == 0
    assert counters["matmul_good"].metrics["tensor_active"] > 0.8
    assert counters["matmul_spilling"].metrics["local_sectors"] > 5 * counters["matmul_good"].metrics["global_sectors"]
    assert counters["column_sum_atomic"].metrics["atomics"] == 1024 * 64 * 4
    assert counters["softmax_three_pass"].metrics["dram_bytes"] > 3.5 * 4 * 8192 * 8192
    assert next(iter(counters["row_sum_scalar_loop"].stalls)) == "long_scoreboard"
    assert NOT_STALLED in counters["matmul_ieee_fp32"].stalls


def test_library_code_is_charged_to_the_line_that_calls_it(by_pages):
    softmax = by_pages[0]
    file = kernel_file(softmax.instructions)
    assert file == "/home/user/kernel/k.py"
    lines = user_lines(softmax.instructions, file, {7, 9})
    library = [
        line for line, one in zip(lines, softmax.instructions, strict=True) if one.file and "standard.py" in one.file
    ]
    assert library
    assert set(library) == {7, 9}
    assert None not in lines


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("smsp__pcsamp_warps_issue_stalled_long_scoreboard", "long_scoreboard"),
        ("stall_long_sb", "long_scoreboard"),
        ("stall_no_inst", "no_instructions"),
        ("no_instruction", "no_instructions"),
        ("stalled_not_Selected", "not_selected"),
        ("stall_math", "math_pipe_throttle"),
        ("stall_something_new", "something_new"),
    ],
)
def test_each_stall_reason_has_one_name(text, word):
    assert reason(text) == word


@pytest.mark.parametrize(
    ("value", "unit", "wanted", "result"),
    [
        (130176.0, "ns", "us", 130.176),
        (61.34, "us", "us", 61.34),
        (2.0, "msecond", "us", 2000.0),
        (206.1, "Gbyte/s", "byte/s", 206.1e9),
        (1.2, "Mbyte", "byte", 1.2e6),
        (1.97, "Ghz", "hz", 1.97e9),
        (1.58, "cycle/nsecond", "hz", 1.58e9),
        (81.9, "%", "share", 0.819),
        (float("nan"), "%", "share", None),
    ],
)
def test_units_are_brought_to_ours(value, unit, wanted, result):
    assert scaled(value, unit, wanted) == (result if result is None else pytest.approx(result))


@pytest.mark.parametrize(
    ("sass", "flops"),
    [
        ("HGMMA.64x256x16.F32 R24, gdesc[UR12], R24", (131072.0, "fp16")),
        ("HMMA.16816.F32.BF16 R4, R8, R12, R4", (4096.0, "bf16")),
        ("HMMA.1688.F32.TF32 R4, R8, R12, R4", (2048.0, "tf32")),
        ("@P0 IMMA.16832.S8.S8 R4, R8, R12, R4", (8192.0, "int8")),
        ("QGMMA.64x128x32.F32.E4M3.E4M3 R24, gdesc[UR12], R24", (131072.0, "fp8")),
        ("UTCHMMA gdesc[UR4], gdesc[UR6], tmem[UR8]", None),
        ("HFMA2.MMA R13, -RZ, RZ, 0, 0", None),
    ],
)
def test_matrix_instructions_are_worth_their_shape(sass, flops):
    mnemonic, modifiers, _ = split(sass)
    assert warp_flops(mnemonic, modifiers) == flops


def test_a_constant_loaded_by_a_multiply_add_computes_nothing():
    assert lane_flops("HFMA2", "R13, -RZ, RZ, 0, 0") == 0
    assert lane_flops("FFMA", "R1, R2, R3, R4") == 2


@pytest.mark.parametrize(
    ("text", "value"), [("1,024", 1024.0), ("-", None), ("", None), ("n/a", None), ("nan", None), ("1.5e3", 1500.0)]
)
def test_cells_that_hold_no_number_are_none(text, value):
    assert number(text) == value


def test_pages_that_are_torn_give_what_is_whole():
    raw, sass = page("raw"), page("sass")
    assert parse_pages("") == ()
    assert parse_pages("==ERROR== something\n") == ()
    (first,) = parse_pages(raw[:-1000])
    assert first.name == "rowsum"
    half = parse_pages(raw, sass[: len(sass) // 2])
    assert half[0].instructions
    assert not half[1].instructions or len(half[1].instructions) < 262


def test_a_report_without_source_counters_says_what_is_missing():
    (first, _) = parse_pages(page("raw"))
    counted = counters_of(first)
    assert counted.lines == {}
    assert counted.stalls  # from the ratios of WarpStateStats
    assert any("SourceCounters" in sentence for sentence in counted.missing)


def test_instructions_of_a_report_without_line_information_are_on_no_line(by_pages):
    from dataclasses import replace

    bare = replace(
        by_pages[0], instructions=tuple(replace(i, file=None, line=None, frames=()) for i in by_pages[0].instructions)
    )
    counted = counters_of(bare)
    assert counted.lines == {}
    assert counted.metrics["instructions"] == counters_of(by_pages[0]).metrics["instructions"]
    assert any("line information" in sentence for sentence in counted.missing)


def broken(tmp_path: Path, content: bytes) -> ReportError:
    path = tmp_path / "broken.ncu-rep"
    path.write_bytes(content)
    with pytest.raises(ReportError) as caught:
        read_report(path)
    return caught.value


def test_a_file_of_another_kind_is_no_report(tmp_path):
    for content in (b"", b"NV", b"# a text\n", os.urandom(1000)):
        assert "not an Nsight Compute report" in str(broken(tmp_path, content))


@needs_module
def test_a_report_that_was_cut_off_is_named_so(tmp_path):
    whole = lzma.decompress((FOLDER / "two_kernels.ncu-rep.xz").read_bytes())
    assert "cut off" in str(broken(tmp_path, whole[: len(whole) // 2]))
    garbled = whole[: len(whole) // 3] + os.urandom(1000) + whole[len(whole) // 3 :]
    assert "damaged" in str(broken(tmp_path, garbled))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ReportError, match="No such file"):
        read_report(tmp_path / "none.ncu-rep")


def test_without_any_reader_the_mend_is_to_install_one(tmp_path, monkeypatch):
    monkeypatch.setattr(read, "read_isolated", lambda *_: None)
    monkeypatch.setattr(read, "find_ncu", lambda: None)
    assert "pip install ncu-report" in str(broken(tmp_path, b"NVR\0" + bytes(100)))


def stand_in_for_ncu(tmp_path: Path) -> Path:
    """A stand-in for ncu that prints the recorded pages for the options it is asked with."""
    for name in ("raw", "sass", "lines"):
        (tmp_path / name).write_text(page(name))
    ncu = tmp_path / "ncu"
    ncu.write_text(
        '#!/bin/sh\ncase "$*" in\n'
        f"*'--page raw'*) cat {tmp_path}/raw;;\n"
        f"*'--print-source cuda,sass'*) cat {tmp_path}/lines;;\n"
        f"*'--print-source sass'*) cat {tmp_path}/sass;;\nesac\n"
    )
    ncu.chmod(0o755)
    return ncu


def test_without_the_module_the_pages_of_ncu_are_read(tmp_path, monkeypatch):
    ncu = stand_in_for_ncu(tmp_path)
    report = tmp_path / "two.ncu-rep"
    report.write_bytes(b"NVR\0")
    monkeypatch.setattr(read, "read_isolated", lambda *_: None)
    monkeypatch.setattr(read, "find_ncu", lambda: ncu)
    assert [one.name for one in read_report(report)] == ["rowsum", "mm"]


def test_ncu_is_found_on_the_path(tmp_path):
    tool = tmp_path / "ncu"
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    assert finding.find_ncu({"PATH": str(tmp_path)}) == tool


def module_that(tmp_path: Path, monkeypatch, does: str) -> Path:
    """Put a `ncu_report` in front of the real one, and a report beside it."""
    place = tmp_path / "modules"
    place.mkdir()
    (place / "ncu_report.py").write_text(f"import os, time, sys\n\ndef load_report(path):\n    {does}\n")
    monkeypatch.setenv("PYTHONPATH", str(place))
    report = tmp_path / "two.ncu-rep"
    report.write_bytes(b"NVR\0" + bytes(100))
    return report


def test_a_module_that_crashes_takes_nothing_along_and_the_pages_are_read(tmp_path, monkeypatch):
    report = module_that(tmp_path, monkeypatch, "os.abort()")
    monkeypatch.setattr(read, "find_ncu", lambda: stand_in_for_ncu(tmp_path))
    assert [one.name for one in read_report(report)] == ["rowsum", "mm"]


@pytest.mark.parametrize(
    ("does", "part"),
    [
        ("os.abort()", "was killed by signal 6"),
        ("time.sleep(60)", "did not end within"),
        ("raise RuntimeError('of another version')", "RuntimeError: of another version"),
        ("os._exit(0)", "its answer cannot be read"),
        ("sys.exit(7)", "failed"),
    ],
)
def test_a_module_that_does_not_read_is_one_sentence_where_there_is_no_ncu(tmp_path, monkeypatch, does, part):
    report = module_that(tmp_path, monkeypatch, does)
    monkeypatch.setattr(read, "find_ncu", lambda: None)
    monkeypatch.setattr(isolated, "_SECONDS", 3.0 if "sleep" in does else 60.0)
    with pytest.raises(ReportError) as caught:
        read_report(report)
    assert part in str(caught.value)
    assert "pip install -U ncu-report" in str(caught.value)


def test_no_metric_is_asked_for_its_unit(tmp_path):
    """The module of Nsight Compute 2025.3 crashes the process where a metric has none."""
    from types import SimpleNamespace

    from tritonforge.profiling.nsight.python_interface import read_with_module

    class Metric:
        def value(self, _index=None):
            return 128

        def unit(self):
            raise AssertionError("a metric was asked for its unit")

        def has_correlation_ids(self):
            return False

    names = ["gpu__time_duration.sum", "launch__grid_dim_x", "launch__grid_dim_y", "launch__grid_dim_z"]
    action = SimpleNamespace(
        name=lambda *_: "mm", metric_names=lambda: names, metric_by_name=lambda _: Metric(), NameBase_MANGLED=2,
        nvtx_state=lambda: None,
    )  # fmt: skip
    profiled = SimpleNamespace(num_actions=lambda: 1, action_by_idx=lambda _: action)
    context = SimpleNamespace(num_ranges=lambda: 1, range_by_idx=lambda _: profiled)
    (launch,) = read_with_module(SimpleNamespace(load_report=lambda _: context), tmp_path, lambda _: True)
    assert launch.grid == (128, 128, 128)
    assert launch.metrics["time_us"] == 0.128
