"""The page: whole, escaped, readable by machine and by ear, and without the network."""

import itertools
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from midwatch.model.site import Site
from midwatch.model.trace import KernelFacts, RequestFacts, WaitFacts
from midwatch.trace import summarise
from midwatch_client.render.html import to_html
from midwatch_client.render.markup import Markup, el, join
from midwatch_server.diagnosis import Evidence, Report, diagnose

EVIL = "<script>alert(1)</script>\"'&\x1b[31m\u202e"
DATA = Path(__file__).parents[2] / "data"


class Page(HTMLParser):
    """Reads a page strictly: every element must be closed where it was opened."""

    def __init__(self, text):
        super().__init__()
        self.open, self.elements, self.texts = [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, text):
        if self.open and self.open[-1] != "style":
            self.texts.append(text)

    def all(self, *tags):
        return [attributes for tag, attributes in self.elements if tag in tags]


def evil_report(report):
    """The report with a hostile text wherever a trace has a name."""
    summary = replace(
        report.summary,
        kernels=(KernelFacts(EVIL, EVIL, 1, 1.0, 1.0, 0.5, op=EVIL, shapes=(EVIL,), dtype=EVIL),),
        waits=(
            WaitFacts("item", EVIL, 1, 1.0, 1.0, 1, 1.0, 0.5, site=Site(EVIL, 1, EVIL, exact=True), starts_ms=(13.0,)),
        ),
        requests=(RequestFacts(EVIL, 0.0, 8.0), RequestFacts(EVIL, 9.0, 8.0)),
        device=replace(report.summary.device, names=(EVIL,)),
        timeline=replace(
            report.summary.timeline, lanes=tuple(replace(one, name=EVIL) for one in report.summary.timeline.lanes)
        ),
    )
    findings = tuple(
        replace(one, title=EVIL, site=Site(EVIL, 1, EVIL), evidence=(EVIL,), caveats=(EVIL,))
        for one in report.diagnosis.findings
    )
    caveats = tuple(replace(one, text=EVIL) for one in report.diagnosis.caveats)
    return replace(
        report, summary=summary, file=EVIL, diagnosis=replace(report.diagnosis, findings=findings, caveats=caveats)
    )


def test_whatever_a_trace_holds_stays_text(capture_report):
    text = to_html([evil_report(capture_report)])
    page = Page(text)
    assert page.all("script", "iframe", "object", "img", "link") == []
    assert "<script" not in text
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert not [name for _, attributes in page.elements for name in attributes if name.startswith("on")]
    assert sum("<script>alert(1)</script>\"'&" in one for one in page.texts) >= 12


def test_the_page_needs_nothing_and_may_load_nothing(capture_report):
    text = to_html([capture_report])
    page = Page(text)
    policy = next(one["content"] for one in page.all("meta") if one.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'")
    assert not [attributes for _, attributes in page.elements if "src" in attributes]
    assert [one["href"] for one in page.all("a")] == ["#main"]
    assert not re.search(r"https?:|url\(|@import", text)


def test_it_says_what_the_report_says(capture_report):
    said = " ".join(Page(to_html([capture_report])).texts)
    for text in (
        "2 findings, the one that would gain most first.",
        "1. hot_sync: `.item()` in record_confidence (app/metrics.py:41)",
        "app/metrics.py:41 in record_confidence",
        "The device worked for 15.0 ms of the 15.6 ms",
        "Read it once, after the last launch. What follows is launched late. Then measure: The route's p50.",
        "not as it stands: shapes change",
        "Also seen, but not the cause",
        "Judging by the ledger, the profiler made requests take 2.00 times as long.",
    ):
        assert text in said


def test_headings_descend_one_by_one_and_names_lead_somewhere(capture_report, incident_report):
    page = Page(to_html([capture_report, incident_report]))
    levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(later <= earlier + 1 for earlier, later in itertools.pairwise(levels))
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    named = [one for _, attributes in page.elements for one in (attributes.get("aria-labelledby") or "").split()]
    linked = [one["href"].removeprefix("#") for one in page.all("a")]
    assert set(named) | set(linked) <= set(ids)
    assert linked[1:] == ["report-1", "report-2"]


def test_pictures_have_titles_and_what_is_wide_scrolls_by_keyboard(capture_report):
    page = Page(to_html([capture_report]))
    assert all(one["role"] == "img" and one["aria-labelledby"] for one in page.all("svg"))
    frames = [one for one in page.all("div") if one.get("class") == "scroll"]
    assert frames
    assert all((one["tabindex"], one["role"]) == ("0", "region") and one["aria-label"] for one in frames)
    assert all(one.get("scope") in ("col", "row") for one in page.all("th"))
    assert any("host 58 %, waits 33 %, device 44 %" in text for text in page.texts)


def test_light_and_dark_are_the_reader_s_choice(capture_report):
    text = to_html([capture_report])
    assert "@media (prefers-color-scheme: dark)" in text
    assert "color-scheme: light dark" in text


@pytest.mark.parametrize(
    "name", ["h200/gc_pause", "h200_light/cpu_logging", "field/hta__cpu_only", "field/hta__alexnet"]
)
def test_traces_as_they_are(name):
    summary = summarise(DATA / f"{name}.json.gz")
    page = Page(to_html([Report(diagnose(Evidence(summary=summary)), summary=summary, file=name)]))
    drawn = any(any(lane.cells) for lane in summary.timeline.lanes)
    assert len(page.all("svg")) == drawn + (len(summary.requests) > 1)


def test_a_report_without_a_window(incident_report):
    page = Page(to_html([incident_report]))
    assert page.all("svg", "table") == []
    assert any("waited 400 ms for lock" in text for text in page.texts)


def test_elements():
    assert el("p", "a < b", None, class_="x & y") == '<p class="x &amp; y">a &lt; b</p>'
    assert el("line", x1=1.0, y2=2.346, aria_hidden=None) == '<line x1="1" y2="2.35"/>'
    assert join("<", Markup("<b/>")) == "&lt;<b/>"
