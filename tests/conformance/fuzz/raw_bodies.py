"""Bodies that no honest client sends: templates of every request, and what is put into their places."""

import json
import re
from uuid import uuid4

from hypothesis import strategies as st

LONG, DEEP = "@long@", "@deep@"
"""Stand for much text and for deep nesting until a request is written, so that examples stay readable."""

DEPTHS = [10, 150, 185, 190, 193, 194, 195, 196, 197, 198, 199, 201, 240, 250, 260, 500, 900]
"""Levels of nesting around the limits of parsers and serialisers."""

ODD_NUMBERS = [
    "NaN",
    "Infinity",
    "-Infinity",
    "1e999",
    "-1e999",
    "1" * 400,
    "1" * 5000,
    "-0.0",
    "1e-999",
    "01",
]
ODD_STRINGS = [
    '"\\ud800"',
    '"\\udc00\\ud800"',
    '"\\u0000"',
    '"\x00"',
    '"\u2028"',
    '"\\q"',
    '"',
    '""',
    f'"{LONG}"',
]
ODDITIES = [
    *ODD_NUMBERS,
    *ODD_STRINGS,
    DEEP,
    *("[" * n + "]" * n for n in DEPTHS),
    *('{"a":' * n + "0" + "}" * n for n in DEPTHS),
    *("null", "true", "[]", "{}", '{"a":1e999}', ""),
]
"""What a number, a text or an object never expects in its place."""

odd_numbers, odd_strings = st.sampled_from(ODD_NUMBERS), st.sampled_from(ODD_STRINGS)
nested = st.just(DEEP) | st.builds(
    lambda depth, pair: pair[0] * depth + "0" + pair[1] * depth,
    st.sampled_from(DEPTHS),
    st.sampled_from([("[", "]"), ('{"a":', "}"), ("[", ""), ('{"a":[', "]}")]),
)
plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
).map(json.dumps)
objects = st.dictionaries(st.text(max_size=8), st.integers() | st.text(max_size=5), max_size=3).map(
    json.dumps
)
finite = st.integers(-3, 12).map(str) | st.floats(allow_nan=False, allow_infinity=False).map(str)
names = st.sampled_from(['"echo"', '"train"', '"fuzzed"', '"tools/list"'])
texts = st.text(max_size=30).map(json.dumps)
SLOTS = {
    "<text>": st.one_of(texts, texts, odd_strings),
    "<id>": st.one_of(texts, texts, odd_strings),
    "<name>": st.one_of(names, names, odd_strings),
    "<number>": st.one_of(finite, odd_numbers),
    "<object>": st.one_of(objects, objects, nested),
    "<any>": st.one_of(plain, plain, odd_numbers, odd_strings, nested),
}
"""What stands in a template, and what takes its place: mostly the right type, often at its edge."""


DEFAULTS = {"<text>": '"text"', "<name>": '"train"', "<number>": "1", "<object>": "{}", "<any>": "{}"}


def odd_bodies(templates):
    """Puts every oddity into every place of every template, one at a time."""
    for template in templates:
        parts = re.split("(<[a-z]+>)", template)
        for place in (index for index, part in enumerate(parts) if part in SLOTS):
            for odd in ODDITIES:
                filled = [DEFAULTS.get(part, part) for part in parts]
                filled = [f'"{uuid4()}"' if part == "<id>" else part for part in filled]
                filled[place] = odd
                yield "".join(filled).encode()


@st.composite
def bodies(draw, templates):
    """Fills a template, each place with its own type or with anything; some bodies are broken afterwards."""
    parts = re.split("(<[a-z]+>)", draw(st.sampled_from(templates)))
    is_odd = draw(st.integers(0, 3)) == 0
    filled = [draw(SLOTS["<any>" if is_odd else part]) if part in SLOTS else part for part in parts]
    body = "".join(filled).encode(errors="surrogatepass")
    manner = draw(st.integers(0, 9))
    if manner == 0:
        return draw(st.binary(max_size=200))
    return draw(mutations(body)) if manner == 1 else body


@st.composite
def mutations(draw, body):
    """Breaks bytes at a few places."""
    broken = bytearray(body[:2000])
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(broken)))
        broken[at : at + draw(st.integers(0, 3))] = draw(
            st.binary(max_size=3) | st.sampled_from([b"\xff", b"\xc3", b'"', b"{", b"}", b"[", b",", b"\x00"])
        )
    return bytes(broken)


CALL = [
    '{"name":"echo","input":{"text":<text>,"number":<number>}}',
    '{"name":"echo","input":{"whole":<number>,"more":<object>}}',
    '{"name":"echo","input":{"more":{"a":<any>}},"task_id":<id>}',
    '{"name":"echo","input":<object>}',
    '{"name":<name>,"input":{}}',
    '{"name":"echo","input":{},<text>:<any>}',
    "<any>",
]
CREATE = [
    '{"task_spec":{"a":<any>}}',
    '{"task_spec":<object>}',
    '{"split":<name>,"index":<number>}',
    '{"env_name":<name>,"task_spec":{}}',
    '{"task_spec":{},"secrets":<object>}',
    '{"task_spec":{},"toolset_name":<name>}',
    "<any>",
]
TASKS = ['{"split":<name>}', '{"split":"train","index":<number>}', "<any>"]
TASKS += ['{"split":"train","start":<number>,"stop":<number>}', '{"split":<name>,"index":<number>}']
GROUP = [
    '{"candidates":<any>}',
    '{"candidates":[{"messages":[{"role":"user","blocks":[{"type":"text","text":<text>}]}],"metadata":<object>}]}',
    '{"candidates":[{"messages":[{"role":<name>,"blocks":<any>}]}]}',
]
ORDER = [
    '{"task_spec":{"a":<any>}}',
    '{"task_spec":<object>}',
    '{"task_spec":{},"policy":<object>}',
    '{"task_spec":{},"policy":{"step_limit":<number>,"time_limit":<number>}}',
    '{"task_spec":{},"secrets":{"a":<text>}}',
    '{"split":<name>,"index":<number>}',
    '{"task_spec":{},"session_id":<name>,"visibility":<name>}',
    "<any>",
]
CONTROL_CALL = [
    '{"name":"echo","arguments":{"text":<text>,"number":<number>}}',
    '{"name":"echo","arguments":{"whole":<number>,"more":<object>}}',
    '{"name":"echo","arguments":<object>,"call_id":<id>}',
    '{"name":<name>}',
    "<any>",
]
META = (
    '"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",'
    '"io.modelcontextprotocol/clientInfo":{"name":"fuzz","version":"0"},'
    '"io.modelcontextprotocol/clientCapabilities":{},"org.openrewardstandard/call_id":<id>}'
)
ASKED = [
    ("tools/call", '{"name":"echo","arguments":{"text":<text>,"number":<number>},META}'),
    ("tools/call", '{"name":"echo","arguments":{"whole":<number>,"more":<object>},META}'),
    ("tools/call", '{"name":"echo","arguments":<object>,META}'),
    ("tools/call", '{"name":<name>,"arguments":{},META}'),
    ("tools/call", "<any>"),
    ("tools/list", '{"cursor":<text>,META}'),
    ("prompts/list", "{META}"),
    ("prompts/get", '{"name":<name>,"arguments":<object>,META}'),
    ("resources/list", "{META}"),
    ("resources/read", '{"uri":<text>,META}'),
    ("resources/templates/list", "{META}"),
    ("completion/complete", '{"ref":{"type":"ref/prompt","name":<name>},"argument":<object>,META}'),
    ("logging/setLevel", '{"level":<name>,META}'),
    ("server/discover", "{META}"),
    ("ping", "{META}"),
    (
        "initialize",
        '{"protocolVersion":<text>,"capabilities":<object>,"clientInfo":{"name":<text>,"version":"1"}}',
    ),
    ("notifications/cancelled", '{"requestId":<any>,META}'),
    ("notifications/progress", '{"progressToken":<any>,"progress":<number>,META}'),
    ("org.openrewardstandard/nothing", "<any>"),
]
"""Methods of MCP and templates of their parameters."""


def request_of(method, params):
    """Writes a JSON-RPC request as a template."""
    head = '{"jsonrpc":"2.0",' + ("" if method.startswith("notifications/") else '"id":1,')
    return head + f'"method":"{method}","params":' + params.replace("META", META) + "}"
