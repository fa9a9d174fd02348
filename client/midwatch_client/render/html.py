"""Reports as one page that needs nothing else: no script, no network, light or dark as the reader has it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.resources import files

from midwatch._version import __version__
from midwatch.model.finding import Finding
from midwatch_server.diagnosis import Report
from midwatch_server.diagnosis.ranks import World
from midwatch_server.diagnosis.report import SCHEMA
from midwatch_server.diagnosis.words import percent

from midwatch_client.render import wording
from midwatch_client.render.htmlfacts import facts_tables, table
from midwatch_client.render.markup import Markup, el, join
from midwatch_client.render.ranks import HEAD, about, first_finding, rank_rows
from midwatch_client.render.svg import requests_svg, timeline_svg

POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
"""The page may load nothing and run nothing, whatever a trace holds."""


def to_html(reports: Sequence[Report], world: World | None = None) -> str:
    """Return one page with all reports, the ranks of a job before them."""
    style = files("midwatch_client.render").joinpath("style.css").read_text(encoding="utf-8")
    title = wording.heading(reports[0]) if len(reports) == 1 else f"{len(reports)} traces"
    head = el(
        "head",
        el("meta", charset="utf-8"),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("meta", http_equiv="Content-Security-Policy", content=POLICY),
        el("title", f"{title} - Midwatch"),
        el("style", Markup(style)),
    )
    body = el(
        "body",
        el("a", "Skip to the findings", href="#main", class_="skip"),
        el("header", el("h1", "Midwatch report"), _contents(reports)),
        el("main", _ranks(world, reports), *(_report(one, n) for n, one in enumerate(reports, 1)), id="main"),
        el("footer", el("p", f"Midwatch {__version__}, {SCHEMA}", class_="soft")),
    )
    return f"<!DOCTYPE html>\n{el('html', head, body, lang='en')}\n"


def _contents(reports: Sequence[Report]) -> Markup | None:
    if len(reports) < 2:
        return None
    links = [
        el(
            "li",
            el("a", wording.heading(report), href=f"#report-{number}"),
            f": {first_finding(report)}",
        )
        for number, report in enumerate(reports, 1)
    ]
    return el("nav", el("ul", *links), aria_label="Reports")


def _ranks(world: World | None, reports: Sequence[Report]) -> Markup | None:
    if world is None:
        return None
    if not world.rows:
        return el("p", world.answer)
    rows = rank_rows(world, reports)
    return el(
        "section",
        el("h2", "Ranks", id="ranks"),
        el("p", world.answer, class_="answer"),
        el("p", about(world), class_="soft"),
        _list(remark.text for remark in world.remarks),
        table("What a step of each rank takes", HEAD, rows, left=(0, len(HEAD) - 1)),
        aria_labelledby="ranks",
    )


def _report(report: Report, number: int) -> Markup:
    name = f"report-{number}"
    reason = report.diagnosis.reason
    return el(
        "article",
        el("h2", wording.heading(report), id=name),
        el("p", wording.verdict(report).removesuffix(reason), class_=f"verdict {report.diagnosis.verdict.value}"),
        el("p", reason) if reason else None,
        _pairs(wording.facts(report)),
        *_findings(report),
        *_pictures(report, name),
        *_section("Also seen, but not the cause", [wording.note(note) for note in report.diagnosis.notes]),
        *_section("About the figures", [caveat.text for caveat in report.diagnosis.caveats]),
        *(facts_tables(report.summary) if report.summary is not None else ()),
        aria_labelledby=name,
    )


def _pictures(report: Report, name: str) -> Iterator[Markup]:
    summary = report.summary
    if summary is None:
        return
    drawn = timeline_svg(summary, f"{name}-timeline")
    if drawn is not None:
        marks = (
            " Triangles mark where the longest waits and pauses of the host begin." if 'class="mark"' in drawn else ""
        )
        heading = wording.timeline_heading(summary)
        yield _figure(heading, drawn, f"Height is how busy a lane is; point at a shape for its figures.{marks}")
    noun = wording.noun(report)
    bars = requests_svg(summary.requests, noun, f"{name}-requests")
    if bars is not None:
        yield _figure(
            f"The {noun}s of the window", bars, "Height is the time that one took, its foot the waiting for the device."
        )


def _figure(heading: str, drawn: Markup, caption: str) -> Markup:
    scroll = el("div", drawn, class_="scroll", tabindex="0", role="region", aria_label=heading)
    return join(el("h3", heading), el("figure", scroll, el("figcaption", caption)))


def _findings(report: Report) -> Iterator[Markup]:
    for number, finding in enumerate(report.diagnosis.findings, 1):
        yield el(
            "section",
            el("h3", f"{number}. {finding.kind.value}: {finding.title}"),
            _pairs(
                [
                    ("where", wording.where(finding.site)),
                    ("held by", wording.where(finding.related_site)),
                    ("costs", wording.costs(finding, report)),
                    ("gain", wording.gains(finding, report)),
                    ("CUDA graph", wording.graph(finding)),
                    ("confidence", percent(finding.confidence)),
                ]
            ),
            *_section("Evidence", finding.evidence, level="h4"),
            *_section("What to try", _advice(finding), level="h4"),
            *_section("But", finding.caveats, level="h4"),
            class_="finding",
        )


def _advice(finding: Finding) -> list[str]:
    return [f"{one.change}. {one.reason}. Then measure: {one.measure}." for one in finding.advice]


def _pairs(pairs: Sequence[tuple[str, str]]) -> Markup | None:
    known = [join(el("dt", label), el("dd", text)) for label, text in pairs if text]
    return el("dl", *known) if known else None


def _section(title: str, texts: Sequence[str], *, level: str = "h3") -> Iterator[Markup]:
    if texts:
        yield el(level, title)
        yield _list(iter(texts))


def _list(texts: Iterator[str]) -> Markup:
    return el("ul", *(el("li", text) for text in texts))
