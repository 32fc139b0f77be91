"""What the correctness rules say of source text alone, and where the text proves nothing."""

from __future__ import annotations

import pytest
from diagnosis_cases import COPY, HEADER, kernel_of, line_of

from tritonforge.diagnosis import diagnose
from tritonforge.domain.finding import Finding


def findings_of(source: str, code: str) -> list[Finding]:
    return [f for f in diagnose(kernel_of(source)) if f.code == code]


def replaced(source: str, old: str, new: str) -> str:
    assert old in source
    return source.replace(old, new)


ROWS = """
@triton.jit
def scale(x, o, stride, n, B: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, B)
    v = tl.load(x + row.to(tl.int64) * stride + c, mask=c < n)
    tl.store(o + row * stride + c, v * 2, mask=c < n)
"""


def test_an_offset_that_is_widened_for_one_pointer_and_not_for_another_is_found_at_its_product():
    (finding,) = findings_of(ROWS, "TF501")
    assert finding.severity == "hint"
    assert finding.range.start.line == line_of(ROWS, "tl.store")
    assert finding.evidence["pointer"].value == "o"
    assert finding.evidence["widened_for"].value == "x"


@pytest.mark.parametrize(
    ("why", "old", "new"),
    [
        ("both are widened", "o + row *", "o + row.to(tl.int64) *"),
        ("neither is", "row.to(tl.int64)", "row"),
        ("another size is multiplied", "o + row * stride", "o + row * n"),
        ("the id is widened where it is read", "tl.program_id(0)", "tl.program_id(0).to(tl.int64)"),
    ],
)
def test_offset_overflow_is_silent_when(why: str, old: str, new: str):
    assert findings_of(replaced(ROWS, old, new), "TF501") == [], why


def test_a_store_without_a_mask_beside_a_load_with_one_is_found():
    source = replaced(COPY, "mask=i < n), mask=i < n)", "mask=i < n))").replace("{BLOCK}", "1024")
    (finding,) = findings_of(source, "TF503")
    assert finding.severity == "hint"
    assert finding.evidence["mask"].value == "i < n"
    assert findings_of(COPY.replace("{BLOCK}", "1024"), "TF503") == []


def test_missing_mask_is_silent_where_another_path_masks_the_same_pointer():
    source = """
    @triton.jit
    def double(x, o, n, EVEN: tl.constexpr, B: tl.constexpr):
        i = tl.program_id(0) * B + tl.arange(0, B)
        if EVEN:
            tl.store(o + i, tl.load(x + i) * 2)
        else:
            tl.store(o + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)
    """
    assert findings_of(source, "TF503") == []


TUNED = """
CONFIGS = [triton.Config({"B": 512}), triton.Config({"B": 1024})]


@triton.autotune(configs=CONFIGS, key=["n"])
@triton.jit
def total(x, out, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.atomic_add(out, tl.sum(tl.load(x + i, mask=i < n, other=0.0), 0))
"""
IN_PLACE = TUNED.replace(
    "    tl.atomic_add(out, tl.sum(tl.load(x + i, mask=i < n, other=0.0), 0))",
    "    v = tl.load(x + i, mask=i < n)\n    tl.store(x + i, v * 2, mask=i < n)",
)


def test_an_autotuned_kernel_that_adds_atomically_needs_reset_to_zero():
    (finding,) = findings_of(TUNED, "TF504")
    assert finding.severity == "information"
    assert finding.range.start.line == line_of(TUNED, "tl.atomic_add")
    assert 'reset_to_zero=["out"]' in finding.message


def test_an_autotuned_kernel_that_updates_in_place_needs_restore_value():
    (finding,) = findings_of(IN_PLACE, "TF504")
    assert finding.range.start.line == line_of(IN_PLACE, "tl.store")
    assert 'restore_value=["x"]' in finding.message


@pytest.mark.parametrize(
    ("why", "source", "old", "new"),
    [
        ("the buffer is reset", TUNED, 'key=["n"]', 'key=["n"], reset_to_zero=["out"]'),
        ("the buffer is restored", IN_PLACE, 'key=["n"]', 'key=["n"], restore_value=["x"]'),
        ("a hook may do it", TUNED, '{"B": 512}', '{"B": 512}, pre_hook=clear'),
        ("a hook of the tuner may do it", TUNED, 'key=["n"]', 'key=["n"], post_hook=clear'),
        ("what is restored is computed", TUNED, 'key=["n"]', 'key=["n"], reset_to_zero=names()'),
        ("one configuration is not benchmarked", TUNED, ', triton.Config({"B": 1024})', ""),
        ("a maximum can be repeated", TUNED, "atomic_add", "atomic_max"),
        ("nothing tunes", TUNED, '@triton.autotune(configs=CONFIGS, key=["n"])\n', ""),
        ("another place is stored to", IN_PLACE, "tl.store(x + i", "tl.store(x + n + i"),
        ("it stored there first", IN_PLACE, "    v = tl", "    tl.store(x + i, 0.0, mask=i < n)\n    v = tl"),
    ],
)
def test_autotune_not_idempotent_is_silent_when(why: str, source: str, old: str, new: str):
    assert findings_of(replaced(source, old, new), "TF504") == [], why


def test_a_store_under_a_constexpr_flag_is_no_update_in_place_from_source():
    flagged = replaced(IN_PLACE, "B: tl.constexpr", "B: tl.constexpr, KEEP: tl.constexpr")
    flagged = replaced(flagged, "    tl.store(", "    if KEEP:\n        tl.store(")
    assert findings_of(flagged, "TF504") == []


def test_a_dot_that_accumulates_in_half_precision_is_a_hint():
    source = """
    @triton.jit
    def product(a, b, c, N: tl.constexpr):
        i = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
        tl.store(c + i, tl.dot(tl.load(a + i), tl.load(b + i), out_dtype=tl.float16))
    """
    (finding,) = findings_of(source, "TF505")
    assert finding.severity == "hint"
    assert "accumulates in float16" in finding.message
    assert findings_of(source.replace("float16", "float32"), "TF505") == []


RACE = """
@triton.jit
def total(x, out, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    part = tl.sum(tl.load(x + i, mask=i < n, other=0.0), 0)
    tl.store(out, part)


def host(x, out):
    n = x.numel()
    total[(triton.cdiv(n, 1024),)](x, out, n, B=1024)
"""


def test_programs_that_store_their_own_value_to_one_place_race():
    (finding,) = findings_of(RACE, "TF506")
    assert finding.severity == "information"
    assert finding.range.start.line == line_of(RACE, "tl.store")
    assert finding.evidence["axis"].value == 0


@pytest.mark.parametrize(
    ("why", "old", "new"),
    [
        ("each has its place", "tl.store(out,", "tl.store(out + tl.program_id(0),"),
        ("one of them stores", "    tl.store", "    if tl.program_id(0) == 0:\n        tl.store"),
        ("the others have returned", "    part", "    if tl.program_id(0) > 0:\n        return\n    part"),
        ("a mask chooses one", "part)\n", "part, mask=tl.program_id(0) == 0)\n"),
        ("all store the same", "tl.program_id(0) * B + ", ""),
        ("the grid is one program", "(triton.cdiv(n, 1024),)", "(1,)"),
        ("the grid is not known", "(triton.cdiv(n, 1024),)", "grid"),
        ("an atomic adds", "tl.store(out", "tl.atomic_add(out"),
        (
            "a lock orders them",
            "    tl.store",
            "    while tl.atomic_cas(out + 1, 0, 1) == 1:\n        pass\n    tl.store",
        ),
        ("a ticket chooses one", "    tl.store", "    if tl.atomic_add(out + 1, 1) == n:\n        tl.store"),
        ("a table says where", "tl.store(out,", "tl.store(out + tl.load(x + tl.program_id(0)).to(tl.int32),"),
    ],
)
def test_data_race_is_silent_when(why: str, old: str, new: str):
    assert findings_of(replaced(RACE, old, new), "TF506") == [], why


def test_data_race_follows_values_through_loops_and_helpers():
    source = """
    @triton.jit
    def add(acc, p):
        return acc + tl.load(p)


    @triton.jit
    def total(x, out, n):
        acc = 0.0
        for k in range(tl.program_id(1), n, tl.num_programs(1)):
            acc = add(acc, x + k)
        tl.store(out + tl.program_id(0), acc)


    def host(x, out, n):
        total[(8, 4)](x, out, n)
    """
    (finding,) = findings_of(source, "TF506")
    assert finding.evidence["axis"].value == 1
    assert finding.evidence["programs_along_axis"].value == 4


SUM = TUNED.replace('@triton.autotune(configs=CONFIGS, key=["n"])\n', "")


def test_float_atomics_that_programs_share_are_not_deterministic():
    (finding,) = findings_of(SUM, "TF507")
    assert finding.severity == "hint"
    assert finding.range.start.line == line_of(SUM, "tl.atomic_add")


@pytest.mark.parametrize(
    ("why", "old", "new"),
    [
        ("a counter has integers", "tl.sum(tl.load(x + i, mask=i < n, other=0.0), 0)", "1"),
        ("programs do not meet", "tl.atomic_add(out,", "tl.atomic_add(out + tl.program_id(0),"),
        ("a maximum has no order", "atomic_add", "atomic_max"),
        ("the name says that it counts", "out", "count_ptr"),
    ],
)
def test_non_deterministic_is_silent_when(why: str, old: str, new: str):
    assert findings_of(replaced(SUM, old, new), "TF507") == [], why


def test_a_scatter_meets_even_where_each_program_has_its_rows():
    source = """
    @triton.jit
    def scatter(x, index, o, n, B: tl.constexpr):
        i = tl.program_id(0) * B + tl.arange(0, B)
        tl.atomic_add(o + tl.load(index + i), tl.load(x + i))
    """
    (finding,) = findings_of(source, "TF507")
    assert finding.message.startswith("Where loaded indices repeat")


@pytest.mark.parametrize(
    ("text", "removed", "deprecated"),
    [
        ("v = tl.load(tl.make_block_ptr(x, (n,), (1,), (0,), (B,), (0,)))", "3.9", "3.7.1"),
        ("v = tl.math.tanh(tl.load(x + i))", "3", None),
        ("v = tl.libdevice.tanh(tl.load(x + i))", "2.1", None),
        ("v = tl._experimental_descriptor_load(x, [0], [B], tl.float32)", "3.4", None),
        ("v = tl.sum(tl.dot(m, m, allow_tf32=False), 0)", None, "3"),
    ],
)
def test_outdated_functions_are_found_with_their_versions(text: str, removed: str | None, deprecated: str | None):
    source = f"""
    @triton.jit
    def kernel(x, o, m, n, B: tl.constexpr):
        i = tl.arange(0, B)
        {text}
        tl.store(o + i, v)
    """
    (finding,) = findings_of(source, "TF601")
    assert finding.severity == "hint"
    assert finding.range.start.line == line_of(source, text.split(" = ")[1][:12])
    for name, version in (("removed_in", removed), ("deprecated_in", deprecated)):
        known = finding.evidence.get(name)
        assert (known.value if known else None) == (f"{version}.0" if version == "3" else version)


def test_outdated_functions_are_found_in_decorators_and_helpers():
    source = """
    from triton.ops.matmul_perf_model import early_config_prune


    @triton.jit
    def helper(x):
        return tl.view(x, (4, 4))


    @triton.autotune(configs=[], key=[], prune_configs_by={"early_config_prune": early_config_prune}, rep=20)
    @triton.jit
    def kernel(x, o):
        tl.store(o, tl.sum(helper(tl.load(x + tl.arange(0, 16)))))
    """
    found = findings_of(source, "TF601")
    assert {f.evidence["api"].value for f in found} == {"tl.view", "the argument rep of triton.autotune", "triton.ops"}


def test_a_name_with_an_alternative_is_left_to_the_installed_version():
    source = HEADER + (
        "try:\n    from triton.language.extra.libdevice import tanh\n"
        "except ImportError:\n    from triton.language.math import tanh\n\n\n"
        "@triton.jit\ndef kernel(x, o):\n    tl.store(o, tanh(tl.load(x)))\n"
    )
    assert findings_of(source, "TF601") == []
    assert len(findings_of(source.replace(".extra.libdevice", ".math"), "TF601")) == 0


def test_source_alone_never_gives_a_warning():
    for source in (ROWS, TUNED, IN_PLACE, RACE, SUM):
        assert {f.severity for f in diagnose(kernel_of(source))} <= {"hint", "information"}
