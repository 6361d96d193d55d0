"""The Containerfile: a linter reads it, what it names is there, and where there is an engine it is built and run."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import Any

import httpx2
import pages
import pytest
import typer
from support.lives import until
from test_serve import serving

from truthful.cli import app
from truthful.service.locations import Settings
from truthful.service.server import reached_at

CONTAINERFILE = pages.ROOT / "Containerfile"
TEXT = CONTAINERFILE.read_text(encoding="utf-8")
LINTER = Path(sys.executable).with_name("hadolint")
PORT = 8000


def instructions(name: str) -> list[str]:
    """What follows this word, wherever it begins an instruction."""
    lines = [line for line in TEXT.splitlines() if not line.startswith("#")]
    whole = "\n".join(lines).replace("\\\n", "").splitlines()
    return [line.removeprefix(f"{name} ") for line in whole if line.startswith(f"{name} ")]


def instruction(name: str) -> str:
    """The last one, which is the one that counts."""
    return instructions(name)[-1]


def copied() -> set[str]:
    """The files and directories of the project that are copied into the image."""
    copies = [words.split() for words in instructions("COPY") if not words.startswith("--from=")]
    return {path for words in copies for path in words[:-1]}


def parsed(arguments: list[str]) -> tuple[str, dict[str, Any]]:
    """A command of `truthful` and all its parameters; what is unknown is refused."""
    group: Any = typer.main.get_command(app)
    for name, command in pages.every_command(group):
        if arguments[: len(name.split())] == name.split():
            return name, command.make_context(name, arguments[len(name.split()) :]).params
    raise AssertionError(f"`truthful {' '.join(arguments)}` is no command")


def lint(text: str) -> str:
    """What the linter has against it."""
    options = ["--no-color", "--failure-threshold", "style", "--trusted-registry", "docker.io"]
    ran = subprocess.run([LINTER, *options, "-"], input=text, capture_output=True, text=True, check=False)
    assert bool(ran.returncode) == bool(ran.stdout + ran.stderr)
    return ran.stdout + ran.stderr


def test_the_linter_has_nothing_against_it() -> None:
    assert not lint(TEXT)


@pytest.mark.parametrize(
    ("sound", "broken", "said"),
    [
        (":3.13-slim-trixie", "", "DL3006"),
        ("docker.io/library", "example.org", "DL3026"),
        ("USER 10001:10001", "USER root", "DL3002"),
        ("COPY src", "ADD src", "DL3020"),
        ("WORKDIR /build", "WORKDIR build", "DL3000"),
        ("--from=build", "--from=built", "DL3022"),
        ('ENTRYPOINT ["truthful"]', "ENTRYPOINT truthful", "DL3025"),
        ("VOLUME", "VOLUMES", "missing whitespace"),
    ],
)
def test_the_linter_sees_what_is_broken(sound: str, broken: str, said: str) -> None:
    assert sound in TEXT
    assert said in lint(TEXT.replace(sound, broken))


def test_what_it_copies_is_in_the_repository_and_nothing_else_is_sent_to_the_engine() -> None:
    listed = subprocess.run(
        ["git", "ls-files"], cwd=pages.ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert copied() <= {part for path in listed.splitlines() for part in (path, path.partition("/")[0])}
    ignored = (pages.ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert ignored[0] == "*"
    assert {line[1:] for line in ignored if line.startswith("!")} == copied()


def test_it_runs_a_command_that_there_is_where_the_engine_and_people_find_it() -> None:
    assert json.loads(instruction("ENTRYPOINT")) == ["truthful"]
    name, given = parsed(json.loads(instruction("CMD")))
    assert name == "serve"
    assert given["directory"].parent == Path(instruction("VOLUME"))
    assert str(PORT) == instruction("EXPOSE") == str(given["port"])
    assert given["host"] == "0.0.0.0"
    assert (
        f"localhost:{PORT}"
        in Settings(given["directory"], reached_at(given["url"], given["host"], PORT)).hosts
    )


def test_the_guide_runs_commands_that_there_are_in_the_directories_of_the_image() -> None:
    section = pages.read("docs/howto-serve.md").split("\n## In a container\n")[1].split("\n## ")[0]
    blocks = "".join(re.findall(r"```bash\n(.*?)```", section, re.DOTALL)).replace("\\\n", "")
    run = [
        words for line in blocks.splitlines() if (words := shlex.split(line, comments=True))[1:2] != ["build"]
    ]
    inside = [words[len(words) - words[::-1].index("truthful") :] for words in run if "truthful" in words]
    found = [parsed(arguments) for arguments in inside]
    assert {name for name, _ in found} == {"serve", "account link", "backup", "restore"}
    assert {given["directory"] for _, given in found} == {
        parsed(json.loads(instruction("CMD")))[1]["directory"]
    }
    volumes = {
        words[k + 1].partition(":")[2] for words in run for k, word in enumerate(words) if word == "--volume"
    }
    made = instructions("RUN")[-1].partition("install --directory ")[2].split()
    assert volumes == {word for word in made if word.startswith("/")}


def test_it_names_the_variables_of_the_service_and_no_others() -> None:
    """`truthful bots` reads one more, for the analyst it plays."""
    sources = "\n".join(path.read_text(encoding="utf-8") for path in (pages.ROOT / "src").rglob("*.py"))
    read = set(re.findall(r"\"(TRUTHFUL_[A-Z_]+)\"", sources))
    assert set(re.findall("TRUTHFUL_[A-Z_]+", TEXT)) == read - {"TRUTHFUL_PASSWORD"}


def test_nobody_is_root_in_it() -> None:
    assert re.fullmatch(r"[1-9]\d{3,}:[1-9]\d{3,}", instruction("USER"))


def test_its_health_check_fails_when_the_service_is_gone(tmp_path: Path) -> None:
    checked = instruction("HEALTHCHECK").partition(" CMD ")[2]
    assert checked.count(str(PORT)) == 1
    with serving(tmp_path / "service") as running:
        command = json.loads(checked.replace(str(PORT), running.url.rpartition(":")[2]))
        command[0] = sys.executable
        assert subprocess.run(command).returncode == 0
        running.stop()
        assert subprocess.run(command, capture_output=True).returncode != 0


def engine() -> str:
    """podman or docker, if it can run anything here."""
    for name in ("podman", "docker"):
        if shutil.which(name) and subprocess.run([name, "info"], capture_output=True).returncode == 0:
            return name
    pytest.skip("neither podman nor docker has an engine here")


def told(*command: str) -> str:
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, f"{' '.join(command)}\n{ran.stdout}{ran.stderr}"
    return ran.stdout.strip()


@contextmanager
def built(engine: str) -> Iterator[str]:
    """The image, for as long as it is needed."""
    base = instructions("FROM")[0].split()[0]
    if subprocess.run([engine, "image", "inspect", base], capture_output=True).returncode:
        pulled = subprocess.run([engine, "pull", base], capture_output=True, text=True)
        if pulled.returncode:
            pytest.skip(f"{base} cannot be pulled: {pulled.stderr.strip().splitlines()[-1]}")
    image = f"localhost/truthful-{token_hex(4)}"
    form = ["--format", "docker"] if engine == "podman" else []
    told(engine, "build", *form, "--file", str(CONTAINERFILE), "--tag", image, str(pages.ROOT))
    try:
        yield image
    finally:
        told(engine, "image", "rm", image)


@pytest.mark.slow
def test_it_is_built_and_answers_and_stops_when_it_is_told() -> None:
    name = engine()
    with built(name) as image:
        arguments = ["--detach", "--init", "--read-only", "--tmpfs", "/tmp", "--cap-drop", "all"]
        shown = [
            "serve",
            "/srv/truthful",
            "--host",
            "0.0.0.0",
            "--url",
            f"http://localhost:{PORT}",
            "--demo",
            "--json",
        ]
        container = told(name, "run", *arguments, "--publish", f"127.0.0.1::{PORT}", image, *shown)
        try:
            url = f"http://{told(name, 'port', container, str(PORT)).splitlines()[0]}"
            until(lambda: told(name, "logs", container).startswith("{"))
            until(lambda: healthy(url))
            public = json.loads(told(name, "logs", container).splitlines()[0])["public_page"]
            path = public.removeprefix(f"http://localhost:{PORT}")
            page = httpx2.get(url + path, headers={"Host": f"localhost:{PORT}"})
            assert page.status_code == 200
            assert told(name, "exec", container, "id", "-u") == instruction("USER").partition(":")[0]
            told(name, "stop", "--time", "60", container)
            assert told(name, "inspect", "--format", "{{.State.ExitCode}}", container) == "143"
        finally:
            told(name, "rm", "--force", "--volumes", container)


def healthy(url: str) -> bool:
    try:
        return httpx2.get(f"{url}/health").text == "ok\n"
    except httpx2.HTTPError:
        return False
