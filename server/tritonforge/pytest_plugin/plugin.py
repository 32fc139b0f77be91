"""What pytest loads: options, the mark, the fixtures, and the table at the end of a run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tritonforge.pytest_plugin.benchmark import KernelBenchmark
    from tritonforge.pytest_plugin.laboratory import Laboratory
    from tritonforge.pytest_plugin.verification import KernelVerify

_MARK = (
    "tritonforge(min_effect=0.03): benchmarks or verifies Triton kernels; skipped without --tritonforge. "
    "min_effect: the smallest change of a time that matters, as a share."
)
_LABORATORY: pytest.StashKey[Laboratory] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare `--tritonforge` and what goes with it."""
    group = parser.getgroup("tritonforge", "Triton kernels: speed and results")
    group.addoption("--tritonforge", action="store_true", help="Run tests that are marked tritonforge.")
    group.addoption("--tritonforge-target", metavar="NAME", help="Where to measure and verify; default: as configured.")
    group.addoption("--tritonforge-baseline", metavar="FILE", help="Default: .tritonforge/baseline.json.")
    group.addoption("--tritonforge-update", action="store_true", help="Write what is measured into the baseline.")


def pytest_configure(config: pytest.Config) -> None:
    """Declare the mark."""
    config.addinivalue_line("markers", _MARK)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip what is marked, unless it was asked for: it takes a worker, and for speed a GPU to itself."""
    if config.getoption("--tritonforge"):
        return
    skip = pytest.mark.skip(reason="needs --tritonforge")
    for item in items:
        if item.get_closest_marker("tritonforge") is not None:
            item.add_marker(skip)


@pytest.fixture(scope="session")
def _tritonforge(request: pytest.FixtureRequest) -> Iterator[Laboratory]:
    """Keep one worker for all tests of a session; it starts with the first job."""
    from tritonforge.pytest_plugin.laboratory import Laboratory

    config = request.config
    file = config.getoption("--tritonforge-baseline")
    laboratory = Laboratory(
        Path(str(config.rootpath)),
        config.getoption("--tritonforge-target"),
        Path(file) if file else None,
        update=bool(config.getoption("--tritonforge-update")),
    )
    config.stash[_LABORATORY] = laboratory
    try:
        yield laboratory
    finally:
        laboratory.close()


@pytest.fixture
def kernel_benchmark(request: pytest.FixtureRequest, _tritonforge: Laboratory) -> KernelBenchmark:
    """Compare a kernel's speed with its baseline: `kernel_benchmark("kernels.py::matmul_kernel")`, or `(matmul, a, b)`.

    The test fails when it has regressed. Returns what was found, to be asserted on further.
    """
    from tritonforge.pytest_plugin.benchmark import KernelBenchmark

    return KernelBenchmark(_tritonforge, _min_effect(request))


@pytest.fixture
def kernel_verify(_tritonforge: Laboratory) -> KernelVerify:
    """Compare results in one assertion: of two functions on arguments, or of two kernels, each as `PATH::KERNEL`."""
    from tritonforge.pytest_plugin.verification import KernelVerify

    return KernelVerify(_tritonforge)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Show every kernel that was benchmarked, before and after."""
    laboratory = config.stash.get(_LABORATORY, None)
    if laboratory is None or (not laboratory.comparisons and not laboratory.said):
        return
    terminalreporter.section("tritonforge")
    for line in laboratory.summary():
        terminalreporter.write_line(line)


def _min_effect(request: pytest.FixtureRequest) -> float | None:
    """Return what the test's mark says, as a share; None where it says nothing."""
    mark = request.node.get_closest_marker("tritonforge")
    value = mark.kwargs.get("min_effect") if mark is not None else None
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1:
        pytest.fail(f"min_effect of the mark tritonforge is a share such as 0.03, not {value!r}.", pytrace=False)
    return float(value)
