"""Records the transcripts of a report as episodes, which `ors-server replay` plays again."""

import shlex

from ors_server.audit.audited_server import open_audited
from ors_server.audit.plays import CallPlan
from ors_server.audit.report import AuditReport, AuditTranscript, ClassReport
from ors_server.audit.study import AuditPlayer


async def record_transcripts(
    report: AuditReport, environment: str | type, name: str | None, record: str
) -> AuditReport:
    """Play the first transcript of each class again, as an episode with the label `audit`.

    Args:
        environment: What was audited, as for `audit`.
        name: The environment's name, where there are several.
        record: A SQLite file or a `postgresql://` URL.

    Returns:
        The report, in which those transcripts name the command that replays them.
    """
    async with open_audited(environment, name, store=record) as server:
        told = [_with_command(one, report.environment, record, server.reference) for one in report.classes]
        plays = [_play_of(transcript, one.id) for one in told if (transcript := _first(one)) is not None]
        await AuditPlayer(server).play_in_turn(plays)
    return report.model_copy(update={"classes": tuple(told)})


def _first(report: ClassReport) -> AuditTranscript | None:
    return report.findings[0].transcript if report.findings else None


def _play_of(transcript: AuditTranscript, label: str) -> CallPlan:
    calls = tuple((call.tool, call.arguments) for call in transcript.calls)
    return CallPlan(transcript.split, transcript.index, calls, transcript.seed, label=label)


def _with_command(report: ClassReport, environment: str, record: str, reference: str) -> ClassReport:
    transcript = _first(report)
    if transcript is None:
        return report
    words = ["ors-server", "replay", "--store", record, "--label", f"audit={report.id}"]
    words += ["--environment-name", environment, "--environment", reference]
    shown = transcript.model_copy(update={"replay": shlex.join(words)})
    first = report.findings[0].model_copy(update={"transcript": shown})
    return report.model_copy(update={"findings": (first, *report.findings[1:])})
