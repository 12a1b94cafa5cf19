"""The one command: every command wires parts together, prints its result (as JSON with --json) and does nothing else."""

from __future__ import annotations

import sys

import typer

from forewarn.commands import analysis, configuration, emulate, ingestion, lake, recommendations, replay, running, topics
from forewarn.logs import configure_logs
from ingest.errors import ForewarnError

app = typer.Typer(
    name="forewarn",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)


@app.callback()
def _prepare() -> None:
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
    """Run the command; an error on purpose is one line on standard error and exit code 2."""
    try:
        app()
    except ForewarnError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
