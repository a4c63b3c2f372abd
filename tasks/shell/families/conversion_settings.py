"""Data conversion, continued: settings and variables of programs."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ors_server_tasks.shell.exercise import Exercise, Json, Tree, changed, lines_file, text_file
from ors_server_tasks.shell.families.conversion_tables import LAYOUT_IS_FREE, program
from ors_server_tasks.shell.vocabulary import CITIES, HOSTS, SERVICES, USERS, sentence

if TYPE_CHECKING:
    from ors_server_tasks.shell.draw import Draw
    from ors_server_tasks.shell.exercise import Choices

Sections = dict[str, dict[str, Any]]


def settings(draw: Draw, choices: Choices) -> Exercise:
    """Turn an INI file into JSON, or JSON into an INI file."""
    direction, style, merges = choices
    sections = draw.pick_some(SERVICES, draw.between(3, 5))
    base = {section: _entries(draw) for section in sections}
    local = {section: _entries(draw) for section in sections[:2]} if merges else {}
    combined = {section: {**base[section], **local.get(section, {})} for section in sections}
    stack = _Stack(base, local, combined)
    return (_ini_to_json, _json_to_ini)[direction](draw, stack, style)


@dataclass(frozen=True, slots=True)
class _Stack:
    """Settings, others that override them, and both together."""

    base: Sections
    local: Sections
    combined: Sections

    def told(self, suffix: str) -> str:
        """Say which files there are."""
        return (
            f"base{suffix} and local{suffix} hold settings" if self.local else f"base{suffix} holds settings"
        )

    def rule(self, suffix: str) -> str:
        """Say which of them wins."""
        return (
            (
                f" Values of local{suffix} override those of base{suffix}; sections and keys may stand in "
                "only one of them."
            )
            if self.local
            else ""
        )


def _entries(draw: Draw) -> dict[str, Any]:
    kinds: tuple[Callable[[], Any], ...] = (
        lambda: draw.between(1, 9000),
        lambda: draw.chance(50),
        lambda: sentence(draw, 1, 3),
        lambda: f"/srv/{draw.pick(HOSTS)}",
    )
    keys = draw.pick_some(("port", "path", "host", "debug", "limit", "title", "cache"), 4)
    return {key: draw.pick(kinds)() for key in keys}


def _ini_to_json(draw: Draw, stack: _Stack, typed: int) -> Exercise:
    before: Tree = {"base.ini": text_file(_ini_text(draw, stack.base))}
    if stack.local:
        before["local.ini"] = text_file(_ini_text(draw, stack.local))
    types = (
        "Values are strings.",
        (
            "Values are numbers where they consist of digits only, true and false where they are yes and "
            "no, and strings otherwise."
        ),
    )[typed]
    ask = (
        f"{stack.told('.ini')}: sections in brackets, lines of key = value (spaces around key, = and value "
        "do not count), empty lines, and comments, which are lines that begin with # or "
        f";.{stack.rule('.ini')} Write them to settings.json: an object whose keys are the sections and "
        f"whose values are objects of their keys and values. {types} {LAYOUT_IS_FREE}"
    )
    convert = ("v", "int(v) if v.isdigit() else {'yes': True, 'no': False}.get(v, v)")[typed]
    gold = program(
        "import configparser, json",
        "c = configparser.ConfigParser(interpolation=None)",
        "c.optionxform = str",
        f"c.read({sorted(before)})",
        f"f = lambda v: {convert}",
        "out = {s: {k: f(v) for k, v in c[s].items()} for s in c.sections()}",
        "json.dump(out, open('settings.json', 'w'))",
    )
    plain = {
        name: {key: _ini(value) for key, value in section.items()} for name, section in stack.combined.items()
    }
    after = changed(before, {"settings.json": Json((plain, stack.combined)[typed])})
    return Exercise(ask, before, after, gold)


def _json_to_ini(_: Draw, stack: _Stack, spaced: int) -> Exercise:
    before: Tree = {"base.json": text_file(json.dumps(stack.base, indent=2) + "\n")}
    if stack.local:
        before["local.json"] = text_file(json.dumps(stack.local, indent=2) + "\n")
    equals = ("=", " = ")[spaced]
    rows: list[str] = []
    for section, entries in sorted(stack.combined.items()):
        rows += [
            f"[{section}]",
            *(f"{key}{equals}{_ini(value)}" for key, value in sorted(entries.items())),
            "",
        ]
    ask = (
        f"{stack.told('.json')}: sections with keys and values.{stack.rule('.json')} Write them to "
        "settings.ini: for each section, sorted by name, a line with its name in brackets, then a line "
        f"key{equals}value for each key, sorted by key; one empty line between two sections and none at the "
        "end. true becomes yes, false becomes no."
    )
    gold = program(
        "import json",
        "c = json.load(open('base.json'))",
        "for s, e in json.load(open('local.json')).items(): c.setdefault(s, {}).update(e)"
        if stack.local
        else "",
        "f = lambda v: {True: 'yes', False: 'no'}[v] if isinstance(v, bool) else str(v)",
        f"block = lambda s: ['[' + s + ']'] + [k + '{equals}' + f(c[s][k]) for k in sorted(c[s])]",
        "text = '\\n\\n'.join('\\n'.join(block(s)) for s in sorted(c))",
        "open('settings.ini', 'w').write(text + '\\n')",
    )
    return Exercise(ask, before, changed(before, {"settings.ini": lines_file(rows[:-1])}), gold)


def _ini(value: Any) -> str:
    return ("no", "yes")[value] if isinstance(value, bool) else str(value)


def _ini_text(draw: Draw, content: Sections) -> str:
    lines: list[str] = []
    for section, entries in content.items():
        lines += [f"[{section}]", f"{draw.pick('#;')} {sentence(draw, 2, 4)} = {draw.between(1, 9)}"]
        lines += [f"{key}{draw.pick((' = ', '=', ' =  '))}{_ini(value)}" for key, value in entries.items()]
        lines.append("")
    return "".join(f"{line}\n" for line in lines)


def environment_file(draw: Draw, choices: Choices) -> Exercise:
    """Turn variables of one notation into another."""
    source, target, naming = choices
    values = {
        f"{draw.pick(SERVICES)}_{name}": draw.pick(
            (
                sentence(draw, 1, 3),
                str(draw.between(1, 9999)),
                f"it's {draw.pick(USERS)}",
                "",
                f"a=b {draw.pick(CITIES)}",
            )
        )
        for name in draw.pick_some(
            ("url", "token", "limit", "mode", "owner", "label", "retries", "region"), 8
        )
    }
    spelled = {name.upper(): value for name, value in values.items()}
    if source == 0:
        lines = [f"{name}={value}" for name, value in spelled.items()]
        lines.insert(3, f"# {sentence(draw, 2, 3)} A=1")
        lines.insert(5, "")
        told, name_in = (
            (
                "one variable per line as NAME=value: the value is everything after the first =, taken "
                "literally; empty lines and lines that begin with # do not count"
            ),
            "app.env",
        )
        node = lines_file(lines)
        load = (
            "v = dict(l.rstrip('\\n').split('=', 1) for l in open('app.env') if l.strip() and not "
            "l.startswith('#'))"
        )
    else:
        name_in, told, node = (
            "app.json",
            "an object of names and strings",
            text_file(json.dumps(spelled, indent=1) + "\n"),
        )
        load = "import json\nv = json.load(open('app.json'))"
    final = {(name, name.lower())[naming]: value for name, value in spelled.items()}
    result = (
        [
            f"export {name}='{value.replace(chr(39), chr(39) + chr(92) + chr(39) * 2)}'"
            for name, value in sorted(final.items())
        ],
        [f"{name}\t{value}" for name, value in sorted(final.items())],
        [f"{name}: {json.dumps(value)}" for name, value in sorted(final.items())],
    )[target]
    form = (
        "export NAME='value' for a shell, where a single quote in the value is written '\\''",
        "name, one tab, value",
        'name: "value", with the value as a JSON string in double quotes',
    )[target]
    row = (
        "'export ' + k + \"='\" + v[k].replace(\"'\", \"'\\\\''\") + \"'\"",
        "k + '\\t' + v[k]",
        "k + ': ' + json.dumps(v[k])",
    )[target]
    ask = (
        f"{name_in} holds variables: {told}. Write to variables.txt one line for each: {form}. "
        + ("Names stay in upper case", "Names are written in lower case")[naming]
        + "; lines are sorted by name."
    )
    gold = program(
        "import json",
        load,
        "v = {k.lower(): x for k, x in v.items()}" if naming else "",
        f"open('variables.txt', 'w').writelines({row} + '\\n' for k in sorted(v))",
    )
    before: Tree = {name_in: node}
    return Exercise(ask, before, changed(before, {"variables.txt": lines_file(result)}), gold)
