"""JSON that would hold the event loop is refused before it is read, and no other."""

import json
import math
import random
import time

import anyio
import anyio.lowlevel
import pytest

from ors_server.model.errors import PayloadTooLargeError
from ors_server.model.json_bounds import MAX_ALL_DIGITS, MAX_DIGITS, MAX_VALUES, check_json, parse_json
from tests.fixtures.loop_slices import measured_slices, yardstick

MIB = 1 << 20


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b'"' + b",:[{" * MIB + b'"',
        b'"' + b"\\\\" * MIB + b'"',
        b'"' + b'\\"' * MIB + b'"',
        b'["' + b"1" * 4 * MIB + b'"]',
        json.dumps([0] * (MAX_VALUES - 1)).encode(),
        json.dumps({"text": ["a,b" * 100] * 10_000}).encode(),
        b"7" * MAX_DIGITS,
    ],
    ids=["none", "signs in a text", "backslashes", "quotes", "digits in a text", "values", "texts", "number"],
)
async def test_what_is_read_quickly_passes(body):
    with measured_slices() as slices:
        await check_json(body)
    assert slices.worst < yardstick(), slices.where


@pytest.mark.parametrize(
    "body",
    [
        json.dumps([0] * (MAX_VALUES + 1)).encode(),
        b"[" * 4 * MIB,
        b"{" + b'"a":1,' * 600_000,
        b'{"a": "\\\\", "b": [' + b"{}," * 60_000 + b"1]}",
        b"[" + b",".join([b"1" * 4_000] * 1_000) + b"]",
        b'"' * (4 * MIB) + b"," * (MAX_VALUES + 1),
        b"[1,2," + b"1" * 80_000 + b"]",
        b"[" + b",".join([b"7" * 99] * (MAX_ALL_DIGITS // 99 + 1)) + b"]",
    ],
    ids=[
        "values",
        "openings",
        "keys",
        "after a backslash",
        "long numbers",
        "after texts",
        "a number",
        "digits",
    ],
)
async def test_what_is_read_slowly_is_refused(body):
    with measured_slices() as slices, pytest.raises(PayloadTooLargeError):
        await check_json(body)
    assert slices.worst < yardstick(), slices.where


async def test_signs_are_counted_outside_of_texts_wherever_a_slice_ends():
    rng = random.Random(28)  # noqa: S311  (test data)
    for _ in range(30):
        texts = ["".join(rng.choices('a,:[{"\\1', k=rng.randrange(40))) for _ in range(9_000)]
        body = json.dumps(texts).encode() + b" " * rng.randrange(200)
        await check_json(body)
        with pytest.raises(PayloadTooLargeError):
            await check_json(body[:-1] + b"," * (MAX_VALUES - 9_000 + 2))


def test_the_last_of_equal_names_counts_in_an_object_of_any_size():
    for names in (3, 9_999, 10_000, 10_001, 35_000):
        text = json.dumps({f"n{number}": number for number in range(names)})[:-1] + ',"n1":"b","n0":"a"}'
        value = anyio.run(parse_json, text.encode().ljust(1 << 17), 10**6)
        assert list(value.items()) == list(json.loads(text).items())


async def test_an_object_of_half_a_million_names_leaves_the_interpreter_to_other_threads():
    body = json.dumps({f"n{number}": 1 for number in range(500_000)}).encode()
    is_read, longest = False, [math.inf]

    async def beat():
        others = time.process_time() - time.thread_time()
        while not is_read:
            await anyio.lowlevel.checkpoint()
            now = time.process_time() - time.thread_time()
            longest[-1], others = max(longest[-1], now - others), now

    while longest[-1] >= 2 * yardstick() and len(longest) < 5:  # this thread may not get a processor at once
        longest.append(0.0)
        is_read = False
        async with anyio.create_task_group() as group:
            group.start_soon(beat)
            assert len(await parse_json(body, 10**7)) == 500_000
            is_read = True
    assert longest[-1] < 2 * yardstick(), longest
