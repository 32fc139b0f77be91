"""`--format html` of `profile` and `optimize`: the kernel report, with the compiler's listings where it gives them."""

from __future__ import annotations

from collections.abc import Sequence

from tritonforge import __version__
from tritonforge.domain.kernel_report import KernelReport
from tritonforge.domain.results import OptimizeResult, ProfileResult
from tritonforge.jobs import JobError
from tritonforge.jobs.session import Session
from tritonforge.workload.subject import Subject


async def profile_page(result: ProfileResult, subject: Subject, session: Session) -> str:
    """Return the page of a profile."""
    from tritonforge.report.kernel_report import of_profiles

    reports = of_profiles(result, {subject.file: subject.text})
    return page_of([await _with_listings(report, subject, session) for report in reports])


async def search_report(result: OptimizeResult, subject: Subject, session: Session) -> KernelReport:
    """Return the report of a search. One that was interrupted asks its target for nothing more."""
    from tritonforge.report.kernel_report import of_search, with_listings

    report = of_search(result, subject.text)
    if result.stopped_because == "interrupted":
        return with_listings(report, {}, "The search was interrupted before the listings were read.")
    return await _with_listings(report, subject, session)


def page_of(reports: Sequence[KernelReport]) -> str:
    """Return the page of kernels."""
    from tritonforge.report.html_report import report_html

    return report_html(reports, version=__version__)


async def _with_listings(report: KernelReport, subject: Subject, session: Session) -> KernelReport:
    from tritonforge.diagnosis.listings import listings_of
    from tritonforge.report.kernel_report import with_listings

    ordered = sorted(report.launches, key=lambda one: one.launch.rank)
    try:
        found = await listings_of(subject, session, [one.launch.id for one in ordered])
    except JobError as error:
        return with_listings(report, {}, f"The compiler's listings could not be read: {error.failure.message}.")
    return with_listings(report, found, "Listings are read of the most important launches only.")
