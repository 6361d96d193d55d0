"""Programs that rehearse a study over HTTP: they use the pages as people do, and check every payment."""

from pathlib import Path

import pytest
from commands import Run
from serving import PASSWORD
from test_serve import serving

from truthful.agents import KINDS
from truthful.bots.analyst import demo_study
from truthful.bots.forms import Page
from truthful.bots.players import Manner, invented
from truthful.plan import design
from truthful.simulation.cast import cast
from truthful.study import Study

FORMS = """
<p role="alert">That is <b>wrong</b>.</p><p>Fine.</p>
<form action="/a" method="post"><input name="kept" value="1"><input type="radio" name="no" value="2">
<input type="radio" name="yes" value="3" checked><input type="file" name="file"><button name="do" value="it">
</button></form>
<form id="plan" action="/b"><input name="n"></form><button form="plan" formmethod="post" formaction="/c"></button>
<form method="post"><button></button></form><button></button>
"""


def test_a_page_is_its_buttons_and_its_complaint() -> None:
    page = Page(FORMS)
    sent = [(button.action, button.method, {**button.form.fields, **button.adds}) for button in page.buttons]
    assert sent == [
        ("/a", "post", {"kept": "1", "yes": "3", "do": "it"}),
        ("/c", "post", {"n": ""}),
        ("", "post", {}),
    ]
    assert page.complaint == "That is wrong ."


def test_bots_answer_as_their_kind_does_and_stay_away_if_it_does() -> None:
    plan = design(Study.parse(demo_study()), players=2_000, budget=10_000.0)
    bots = invented(plan, cast(dict.fromkeys(KINDS, 1 / len(KINDS)), 700), seed=1)
    assert {bot.kind for bot in bots.values()} == set(KINDS)
    assert {bot.manner for bot in bots.values()} == set(Manner)
    said = [bot.answer for bot in bots.values() if bot.answer is not None]
    assert 0 <= min(said) < max(said) <= 1_000
    assert {bot.answer for bot in bots.values() if bot.kind == "privacy-seeker"} == {500.0}
    again = invented(plan, cast(dict.fromkeys(KINDS, 1 / len(KINDS)), 700), seed=1)
    assert bots == again


@pytest.mark.slow
def test_bots_rehearse_a_whole_study_on_a_running_service(run: Run, tmp_path: Path) -> None:
    with serving(tmp_path / "service") as service:
        link = service.said["sign_in_link"]
        first = run("bots", link, "--players", "60", "--password", PASSWORD, "--seed", "3")
        assert first.code == 0, first.err
        assert "59 answered, 59 were paid, 59 found their payment right." in first.out
        wrong = run("bots", service.url, "--password", "not this one")
        assert (wrong.code, "answered by 403" in wrong.err) == (1, True)
        used = run("bots", link, "--password", PASSWORD)
        assert (used.code, "answered by 404" in used.err) == (1, True)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["nowhere"], 2, "The URL is 'nowhere'"),
        (["http://127.0.0.1:1", "--password", PASSWORD], 2, "does not answer"),
        (["http://127.0.0.1:1"], 1, "Give the analyst's --password"),
        (["http://127.0.0.1:1", "--players", "3"], 2, "players"),
        (["http://127.0.0.1:1", "--mix", "liar=2"], 2, "between 0 and 1"),
        (["http://127.0.0.1:1", "--mix", "saint=1"], 2, "no agent 'saint'"),
    ],
)
def test_what_bots_cannot_do_is_said(run: Run, arguments: list[str], code: int, said: str) -> None:
    ran = run("bots", *arguments)
    assert ran.code == code
    assert said in " ".join(ran.err.split())
