"""The one command: every command wires parts together, prints its result (as JSON with --json) and does nothing else."""

from __future__ import annotations

import sys
from importlib.metadata import version
from typing import Annotated, NoReturn

import typer

from forewarn.commands import analysis, configuration, emulate, ingestion, lake, recommendations, replay, running, topics
from forewarn.extras import what_to_install
from forewarn.logs import configure_logs
from ingest.errors import ForewarnError

app = typer.Typer(
    name="forewarn",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)


def _print_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"forewarn {version('forewarn')}")
        raise typer.Exit


@app.callback()
def _prepare(
    _version: Annotated[bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")] = False,
) -> None:
    """Sees GPU node failures coming: telemetry to calibrated hazards to drain recommendations."""
    configure_logs()


app.command("demo")(running.demo)
app.command("up")(running.up)
app.command("status")(running.status)
app.command("collect")(ingestion.collect)
app.command("write")(ingestion.write)
app.command("import")(ingestion.import_history)
app.add_typer(ingestion.inspect, name="inspect")
app.add_typer(lake.lake, name="lake")
app.add_typer(topics.topics, name="topics")
app.command("replay")(replay.replay)
app.command("features")(analysis.features)
app.command("train")(analysis.train)
app.command("evaluate")(analysis.evaluate)
app.command("score")(analysis.score)
app.add_typer(analysis.models, name="models")
app.command("alert")(recommendations.alert)
app.add_typer(recommendations.consume, name="consume")
app.command("recommendations")(recommendations.recommendations)
app.add_typer(emulate.emulate, name="emulate")
app.add_typer(configuration.config, name="config")


def main() -> None:
    """Run the command; an error on purpose, or an extra that is not installed, is one line on standard error and exit code 2."""
    try:
        app()
    except ForewarnError as error:
        _end(str(error))
    except ModuleNotFoundError as error:
        line = what_to_install(error.name)
        if line is None:
            raise
        _end(line)
    except KeyboardInterrupt:
        sys.exit(130)


def _end(line: str) -> NoReturn:
    sys.stderr.write(f"{line}\n")
    sys.exit(2)
