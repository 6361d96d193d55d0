"""The public report of a settlement: one page, made from the release and the plan alone.

It holds nothing of people's answers but what the release holds: every number in it is public or follows from the
private estimates. So it is the same page whenever it is made again.
"""

from __future__ import annotations

from importlib import resources
from string import Template

from truthful.errors import InputError
from truthful.plan import Plan
from truthful.promises import REHEARSAL, Promise, released
from truthful.release import AnyRelease, Release
from truthful.report import asked, averages, shares, shown
from truthful.report.assumed import assumed, identity, question
from truthful.report.markup import command, paragraph, section, text
from truthful.report.share_tables import answer

VERIFY = "truthful verify release.json receipt.json"


def report(release: AnyRelease, plan: Plan) -> str:
    """The report as an HTML page."""
    if release.plan_sha256 != plan.sha256:
        raise InputError(
            f"The release was made with plan {release.plan_sha256[:12]}…, and this is plan {plan.sha256[:12]}…. Give "
            "the plan that was settled."
        )
    promised = released(release, plan)
    assumptions = list(dict.fromkeys(words for promise in promised for words in promise.assumptions))
    return page(
        f"{release.study.name}: report",
        _top(release, plan),
        question(plan.study, release.players),
        _found(release, plan),
        _guarantees(promised, assumptions),
        *([shown.kept(release, plan)] if isinstance(release, Release) else []),
        shown.privacy(release),
        *_paid(release, plan),
        assumed(plan.study, assumptions),
        _checking(),
        identity(release),
    )


def _found(release: AnyRelease, plan: Plan) -> str:
    predicted = asked.found(release, plan) if isinstance(release, Release) and release.predictions else []
    if isinstance(release, Release) and release.shares is not None:
        return shares.found(release, plan, predicted)
    return shown.found(release, plan, predicted)


def _paid(release: AnyRelease, plan: Plan) -> tuple[str, str]:
    """What payments depended on, and what a lie would have earned."""
    if isinstance(release, Release) and plan.asked_mechanism is not None:
        return asked.payments(release, plan), asked.lying(plan)
    if plan.share_mechanism is not None:
        return shares.payments(plan), shares.lying(plan)
    return shown.lying(release, plan), shown.payments(release, plan)


def page(title: str, *parts: str) -> str:
    """A whole page of these parts, its style inside."""
    files = resources.files("truthful.report")
    template, style = (files.joinpath(f"page.{kind}").read_text(encoding="utf-8") for kind in ("html", "css"))
    return Template(template).substitute(title=text(title), style=style.strip(), body="\n".join(parts))


def _top(release: AnyRelease, plan: Plan) -> str:
    """The name, the answer where it is a single number, and what must not be overlooked."""
    notices = [REHEARSAL] if release.rehearsal else []
    notices += release.warnings if isinstance(release, Release) else ()
    banner = "".join(f'\n<p class="banner"><strong>{text(notice)}</strong></p>' for notice in notices)
    answered = ""
    if isinstance(release, Release) and release.shares is not None:
        answered = "\n" + paragraph(answer(release, plan.study), "answer")
    elif isinstance(release, Release) and release.predictions is not None:
        answered = "\n" + paragraph(averages.answer(release.predictions), "answer")
    name = text(release.study.name)
    return f'<header>\n<p class="over">Report</p>\n<h1>{name}</h1>{banner}{answered}\n</header>'


def _guarantees(promised: tuple[Promise, ...], assumptions: list[str]) -> str:
    """The five, in their order, in the words of `truthful plan`."""
    parts = []
    for promise in promised:
        numbers = ", ".join(str(assumptions.index(words) + 1) for words in promise.assumptions)
        given = promise.given.format(f"assumptions {numbers}").replace("\n", "; ") if numbers else "nothing"
        surely = f"Probability: {promise.probability}. Assuming: {given}." if promise.probability else ""
        words = promise.words[0].upper() + promise.words[1:]
        parts.append(
            f'<div class="guarantee">\n<h3>{text(promise.name.capitalize())}</h3>\n{paragraph(f"{words}.")}\n'
            + (f"{paragraph(surely, 'note')}\n" if surely else "")
            + "</div>"
        )
    return section("What is guaranteed", *parts)


def _checking() -> str:
    return section(
        "How to check a payment",
        paragraph(
            "Whoever took part has a receipt of her own. With it and the release she can recompute her payment:"
        ),
        command(VERIFY),
        paragraph(
            "The release is the file release.json beside this page. It is the same for everybody and enough for one's "
            "own payment; nobody can recompute anybody else's without her record."
        ),
    )
