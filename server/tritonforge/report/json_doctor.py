"""`doctor --format json`; the schema is `docs/json/doctor.schema.json`."""

from __future__ import annotations

from tritonforge.domain.results import DoctorResult
from tritonforge.report.json_parts import SCHEMA, Json, target_json


def doctor_json(result: DoctorResult) -> Json:
    """Return the report of `doctor` as one JSON object."""
    return {
        "schema": SCHEMA,
        "target": target_json(result.target),
        "checks": [
            {"name": c.name, "ok": c.ok, "detail": c.detail, "mend": c.mend, "optional": c.optional}
            for c in result.checks
        ],
    }
