"""`verify --format json`; the schema is `docs/json/verify.schema.json`."""

from __future__ import annotations

from tritonforge.domain.results import VerifyResult
from tritonforge.report.json_parts import SCHEMA, Json, verdict_json


def verify_json(result: VerifyResult) -> Json:
    """Return the report of `verify` as one JSON object."""
    return {"schema": SCHEMA, "verdict": verdict_json(result.verdict)}
