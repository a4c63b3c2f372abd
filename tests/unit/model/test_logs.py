"""The log's promises: silence in a library, no secrets, tracebacks without variables."""

import io
import json
import logging
import subprocess
import sys
from enum import StrEnum

import pytest
import structlog
from pydantic import TypeAdapter, ValidationError

from ors_server.model import log_events, logs


class Colour(StrEnum):
    RED = "red"


@pytest.fixture
def written():
    """Configures logging for one test and gives the stream; afterwards all is as before."""
    root, ours = logging.getLogger(), logging.getLogger(logs.ROOT)
    before = (list(root.handlers), root.level, ours.level)

    def start(**options):
        stream = io.StringIO()
        logs.configure(stream=stream, **options)
        return stream

    yield start
    root.handlers[:], root.level, ours.level = before
    for logger in (root, ours):
        logger.setLevel(logger.level)


def test_a_library_prints_nothing_until_a_program_configures_logging():
    program = (
        "from ors_server.model import logs\n"
        "log = logs.get_logger('ors_server.x')\n"
        "log.info('hello')\n"
        "log.error('bad', answer=1)\n"
        "try: 1 / 0\n"
        "except ZeroDivisionError: log.exception('worse')\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert (ran.stdout, ran.stderr) == ("", "")


def test_a_program_of_its_own_gets_redacted_events_through_the_standard_library(caplog):
    logs.get_logger("ors_server.x").warning("careful", api_key="hunter2", environment="e")
    (record,) = caplog.records
    assert record.name == "ors_server.x"
    assert "hunter2" not in record.getMessage()


@pytest.mark.parametrize("level", ["debug", "info", "warning", "error", "critical"])
def test_a_line_without_colours_is_as_structlog_writes_it(written, level):
    stream = written(level="debug")
    texts = ["plain", "", "a b", "a=b", "a\tb", "a\nb", "a\rb", 'a"b', "a'b", "é", Colour.RED]
    fields = {
        f"f{n}": value for n, value in enumerate([*texts, 1, 1.5, None, True, b"x", ["a b"], {"k": "v w"}])
    }
    for event in ("short", "a name that is longer than its column", "with\na break"):
        getattr(logs.get_logger("ors_server.x"), level)(event, **fields)
        line = stream.getvalue().removesuffix("\n")
        stream.truncate(0)
        stream.seek(0)
        stamp = line.partition(" ")[0]
        theirs = structlog.dev.ConsoleRenderer(colors=False, pad_event_to=log_events.EVENT_WIDTH)
        stated = {"timestamp": stamp, "level": level, "event": event, "logger": "ors_server.x", **fields}
        assert line == theirs(None, level, stated)


def test_json_is_one_object_per_line(written):
    stream = written(form="json", level="debug")
    log = logs.get_logger("ors_server.x")
    log.debug("one", steps=3)
    log.info("two")
    first, second = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert first["event"] == "one"
    assert (first["steps"], first["level"], first["logger"]) == (3, "debug", "ors_server.x")
    assert second["timestamp"].endswith("Z")


def test_the_level_keeps_lesser_events_out_and_other_packages_begin_at_warning(written):
    stream = written(form="json", level="info")
    logs.get_logger("ors_server.x").debug("no")
    logging.getLogger("somebody").info("no")
    logging.getLogger("somebody").warning("yes %s", 1)
    (line,) = stream.getvalue().splitlines()
    assert json.loads(line)["event"] == "yes 1"


def test_configuring_twice_does_not_log_twice(written):
    written(form="json")
    stream = written(form="json")
    logs.get_logger("ors_server.x").info("once")
    assert len(stream.getvalue().splitlines()) == 1


@pytest.mark.parametrize("has_colours", [False, True])
def test_a_terminal_executes_nothing_of_a_text_in_the_log(written, monkeypatch, has_colours):
    stream = written(form="console")
    monkeypatch.setattr(stream, "isatty", lambda: has_colours)
    logs.configure(form="console", stream=stream)
    hostile = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e"
    log = logs.get_logger("ors_server.test")
    log.warning("call_failed", error=hostile, place=[hostile], quoted=f"a {hostile}")
    try:
        int(hostile)
    except ValueError as error:
        error.args = (hostile,)
        log.exception("tool_failed")
    logging.getLogger("another").warning("it sent %s", hostile)
    text = stream.getvalue()
    assert text.count("owned") == 5
    for part in (hostile[:3], "\x1b[2J", "\x07", "\x9b", "\u202e"):
        assert part not in text
    assert ("\x1b[" in text) == has_colours


@pytest.mark.parametrize("form", ["json", "console"])
def test_a_traceback_is_rendered_once_and_without_variables(written, form):
    stream = written(form=form)
    hidden = "variable-PLANTED"
    try:
        raise RuntimeError("broken")  # noqa: TRY301  (it is to be logged below)
    except RuntimeError:
        logs.get_logger("ors_server.x").exception("failed")
    text = stream.getvalue()
    assert text.count("Traceback (most recent call last)") == 1
    assert "RuntimeError: broken" in text
    assert hidden not in text


@pytest.mark.parametrize("name", sorted(logs.SECRET_WORDS))
def test_a_field_of_a_secret_s_name_is_redacted_however_deep(name):
    event = {"event": "x", name: "PLANTED", "deep": [{"er": {name.upper(): "PLANTED"}}]}
    assert "PLANTED" not in str(logs.redact(None, "info", event))


@pytest.mark.parametrize("name", ["openai_api_key", "hf_token", "db_password", "gold_answer"])
def test_a_field_that_ends_like_a_secret_is_redacted(name):
    assert logs.redact(None, "info", {name: "PLANTED"}) == {name: logs.REDACTED}


def test_fields_that_only_sound_like_secrets_stay():
    event = {
        "event": "x",
        "tokens_used": 3,
        "session_id": "s",
        "credential_id": "me",
        "tool": "submit",
        "step": 1,
    }
    assert logs.redact(None, "info", dict(event)) == event


@pytest.mark.parametrize(
    "text",
    [
        "GET /agent/agt_c2Vzc2lvbg.c2ln/mcp",
        "Authorization: Bearer abc.def-123",
        "authorization: BEARER abc.def-123",
        "é Bearer abc.def-123",
        "agt_c2Vzc2lvbg.c2ln",
        "AGT_c2Vzc2lvbg.c2ln",
    ],
)
def test_credentials_inside_texts_are_redacted(text):
    cleaned = logs.redact(None, "info", {"path": text, "list": [text]})
    assert "c2Vzc2lvbg" not in str(cleaned)
    assert "abc.def" not in str(cleaned)


def test_neither_a_token_in_an_exception_nor_what_was_sent_is_logged(written):
    stream = written(form="json")
    try:
        raise RuntimeError("no session for agt_c2Vzc2lvbg.c2ln")  # noqa: TRY301  (it is to be logged below)
    except RuntimeError:
        logs.get_logger("ors_server.x").exception("failed")
    assert "c2Vzc2lvbg" not in stream.getvalue()
    sent = f"plan{len('x')}ted"
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(int).validate_python(sent)
    logs.get_logger("ors_server.x").error("failed", exc_info=caught.value)
    assert "Input should be a valid integer" in stream.getvalue()
    assert sent not in stream.getvalue()
