"""What the documents show is what the commands print."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import calc
from calc.architectures.families import FAMILIES
from calc.architectures.models import from_toml
from calc.cli import COMMANDS, cli
from harness.__main__ import cli as harness
from tests.reference import ROOT
from tests.tutorials import PAGES

ALONE = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
"""Whose commands stand each by itself."""
DOCUMENTS = [*ALONE, *PAGES, *sorted((ROOT / "docs" / "reference").glob("*.md")), ROOT / "CONTRIBUTING.md"]


def sessions() -> list[tuple[str, str, str]]:
    """(document, command, what stands below it) for every command shown in a console block."""
    found = []
    for document in ALONE:
        for block in re.findall(r"^```console\n(.*?)^```", document.read_text(), re.MULTILINE | re.DOTALL):
            for shown in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
                command, _, output = shown.partition("\n")
                found.append((document.name, command, output))
    return found


def run(command: str) -> subprocess.CompletedProcess[str]:
    words = shlex.split(command)
    assert words[:3] == ["python", "-m", "calc"], command
    environment = {"PATH": "/usr/bin:/bin", "PYTHONIOENCODING": "utf-8", "PYTHONPATH": str(ROOT)}
    arguments = [sys.executable, *words[1:]]
    return subprocess.run(arguments, cwd=ROOT, capture_output=True, encoding="utf-8", env=environment, check=False)


@pytest.mark.parametrize(("document", "command", "output"), sessions(), ids=lambda text: text[:60])
def test_documented_output(document: str, command: str, output: str) -> None:
    done = run(command)
    # On a busy machine what takes longer than two seconds says how far it is.
    said = re.sub(r"^.*: [\d,]+ of [\d,]+\n", "", done.stderr, flags=re.MULTILINE)
    assert (said + done.stdout).rstrip() == output.rstrip()


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example_that_runs(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process, which keeps what one example has read and traced for the next."""
    monkeypatch.chdir(ROOT)
    text = CliRunner().invoke(cli, [command, "--help"], prog_name="python -m calc", terminal_width=80).stdout
    told = text[text.index("Example") : text.index("\n\n", text.index("Example"))]
    assert max(map(len, told.splitlines())) <= 80, told
    examples = re.findall(r"^ +python -m calc (.*)$", re.sub(r" \\\n +", " ", told), re.MULTILINE)
    assert examples
    for example in examples:
        if "path/to" not in example:
            done = CliRunner().invoke(cli, shlex.split(example), prog_name="python -m calc")
            assert done.exit_code == 0, (done.stderr, done.exception)
            assert done.stdout


def blocks(language: str) -> list[tuple[str, str]]:
    """(document, text) of every block of code in a language."""
    return [
        (document.name, block)
        for document in DOCUMENTS
        for block in re.findall(rf"^```{language}\n(.*?)^```", document.read_text(), re.MULTILINE | re.DOTALL)
    ]


def shown() -> list[str]:
    """Every command of ours in a block of shell, or by itself between backticks."""
    lines = [line for _, text in blocks("sh") for line in text.replace("\\\n", " ").splitlines()]
    for document in DOCUMENTS:
        prose = re.sub(r"^```.*?^```", "", document.read_text(), flags=re.MULTILINE | re.DOTALL)
        lines += [" ".join(line.split()) for line in re.findall(r"`(python -m [^`]*)`", prose)]
    return list(dict.fromkeys(line for line in lines if re.match(r"python -m (calc|harness) \w", line)))


@pytest.mark.parametrize("line", shown())
def test_shown_commands_have_their_options(line: str) -> None:
    """Those whose output is not shown, most of which take long or need a device: their words are read, not run."""
    _, _, package, name, *words = shlex.split(line.partition(" > ")[0], comments=True)
    group = cli if package == "calc" else harness
    _, command, words = group.resolve_command(click.Context(group), [name, *words])
    assert command is not None
    # A choice in the documents, as in --gpu NAME|--profile FILE, stands for its first.
    words = [word.partition("|")[0] for word in words]
    command.make_parser(click.Context(command)).parse_args(words)


@pytest.mark.parametrize(("document", "text"), blocks("toml"), ids=lambda text: text[:30])
def test_documented_descriptions_are_read(document: str, text: str) -> None:
    assert calc.estimate(from_toml(text, document, "documented"), "params").value > 10**6


@pytest.mark.parametrize(("document", "text"), blocks("python"), ids=lambda text: text[:30])
def test_documented_python_runs(document: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a folder that has the documents, and a `results` of its own to write to."""
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    exec(compile(text, document, "exec"), {})


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_documented_paths_exist(document: Path) -> None:
    """Files of ours named in backticks or linked."""
    text = document.read_text()
    named = re.findall(r"`((?:calc|tests|docs|results|harness|reference_models|\.ci)/[\w./-]*)`", text)
    linked = re.findall(r"\]\((?!http)([\w./-]+)\)", text)
    missing = [name for name in named if not (ROOT / name).exists()]
    missing += [link for link in linked if not (document.parent / link).exists()]
    assert not missing


def test_every_command_and_family_is_documented() -> None:
    tour, families = (ROOT / "docs" / f"{name}.md" for name in ("tour", "families"))
    shown = tour.read_text() + (ROOT / "README.md").read_text()
    for command in COMMANDS:
        assert f"python -m calc {command}" in shown, command
    named = re.findall(r"[\w-]+", families.read_text())
    assert set(FAMILIES) <= set(named)


def test_every_data_file_is_documented() -> None:
    page = (ROOT / "docs" / "reference" / "data-files.md").read_text()
    named = {name.strip("/") for name in re.findall(r"^\| `calc/data/([\w./-]+)`", page, re.MULTILINE)}
    assert named == {path.name for path in (ROOT / "calc" / "data").iterdir() if path.name != "__pycache__"}


def test_the_readme_is_short_and_its_errors_are_those_of_the_documents() -> None:
    text = (ROOT / "README.md").read_text()
    assert len(text.encode()) <= 8 * 1024
    rows = re.findall(r"^\| (.*?) \| ([\d,]+) \| (.*?) \| (.*?) \| \[.*?\]\((.*?)\) \|$", text, re.MULTILINE)
    assert len(rows) >= 5
    # The same in short beside what is predicted, of servers with an aim where README has a mean.
    for name in ("prediction", "serving"):
        own = (ROOT / "docs" / f"{name}.md").read_text()
        short = re.findall(r"^\| (.*?) \| ([\d,]+) \| (.*?) \| (.*?)\| \[.*?\]\((.*?)#.*?\) \|$", own, re.MULTILINE)
        assert len(short) >= 5
        means = name == "prediction"
        rows += [(*row[:3], row[3].strip() if means else "", f"docs/{row[4]}") for row in short]
    for what, *figures, document in rows:
        # Some documents have a space ahead of the sign, some have none.
        told = [figure.replace(" %", "%") for figure in figures if figure]
        lines = [line.replace(" %", "%") for line in (ROOT / document).read_text().splitlines() if line.startswith("|")]
        assert any(set(told) <= {cell.strip() for cell in line.split("|")} for line in lines), what
    assert "python -m calc report" in (cli.help or "")


def test_ci_runs_the_second_command_of_the_readme() -> None:
    first, second = re.findall(r"^python3 -m venv .*$", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert first.endswith("python -m calc report llama-3-8b")
    assert f"\n{second}\n" in (ROOT / ".ci" / "run").read_text()
