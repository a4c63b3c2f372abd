"""What a running tool says to whoever listens."""

from ors_server import CallContext


async def test_progress_reaches_every_listener():
    heard = []

    async def listen(*report):
        heard.append(report)

    context = CallContext("session", "call", 1, {}, [listen, listen])
    await context.report_progress(1, 2, "half")
    assert heard == [(1, 2, "half")] * 2


async def test_a_listener_that_fails_is_dropped_and_disturbs_nobody():
    heard = []

    async def listen(progress, total, message):
        heard.append(progress)

    async def leave(progress, total, message):
        raise ConnectionError

    context = CallContext("session", "call", 1, {}, [leave, listen])
    await context.report_progress(1)
    await context.report_progress(2)
    assert heard == [1, 2]
    assert context.listeners == [listen]


async def test_a_client_that_fails_to_take_a_log_line_disturbs_nobody():
    tried = []

    class Gone:
        def can(self, ability):
            return False

        async def log(self, level, data, logger):
            tried.append(data)
            raise ConnectionError

        async def ask(self, questions):
            raise NotImplementedError

    await CallContext("session", "call", 1, {}, [], Gone()).log("info", "anybody?")
    assert tried == ["anybody?"]
