"""Every rule has a page, and every page a rule."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tritonforge.diagnosis.rules import RULES
from tritonforge.diagnosis.rules.rule import Rule
from tritonforge.domain.rule_names import RULE_NAMES

PAGES = Path(__file__).parents[2] / "docs" / "rules"
SECTIONS = [
    "What it does",
    "Why it matters",
    "How to fix it",
    "Evidence",
    "When it stays silent",
    "When to ignore it",
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_a_rule_has_a_page_with_its_code_name_and_every_section(rule: Rule):
    page = (PAGES / f"{rule.code}.md").read_text(encoding="utf-8")
    assert page.splitlines()[0] == f"# {rule.code}: {rule.name}"
    assert re.findall(r"^## (.+)$", page, re.MULTILINE) == SECTIONS
    fix = page.split("## How to fix it")[1].split("## Evidence")[0]
    assert "Before:" in fix
    assert "After:" in fix
    assert fix.count("```python") >= 2
    assert f"ignore[{rule.code}]" in page


def test_there_is_no_page_without_a_rule():
    assert {p.stem for p in PAGES.glob("TF*.md")} == {rule.code for rule in RULES}


def test_the_index_lists_every_rule_with_its_name_and_nothing_else():
    index = (PAGES / "README.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| \[(TF\d+)\]\(TF\d+\.md\) \| ([\w-]+) \|", index, re.MULTILINE) == [
        (rule.code, rule.name) for rule in RULES
    ]


def test_links_between_pages_lead_somewhere():
    for page in PAGES.glob("*.md"):
        for target in re.findall(r"\]\(([^)#]+\.md)\)", page.read_text(encoding="utf-8")):
            assert (PAGES / target).is_file(), f"{page.name} → {target}"


def test_settings_and_comments_know_every_rule():
    assert {rule.code: rule.name for rule in RULES} == RULE_NAMES


def test_codes_are_unique_and_in_order():
    codes = [rule.code for rule in RULES]
    assert codes == sorted(set(codes))
