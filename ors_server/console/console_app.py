"""The console's ASGI application: who may look, which page answers, and what every answer forbids a browser.

It decides nothing about episodes: pages read the record and the session manager as the control API does, and
change nothing but over the same methods.
"""

import gzip
import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlsplit

import anyio.to_thread
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from ors_server import charts
from ors_server._version import __version__
from ors_server.console.action_pages import ActionPages
from ors_server.console.browser_sessions import MAX_SECONDS, BrowserSession, BrowserSessions, is_same
from ors_server.console.episode_pages import EpisodePages
from ors_server.console.page_types import (
    MAX_FIELDS,
    Answer,
    Download,
    LiveEvents,
    Page,
    PageRequest,
    Redirect,
    Route,
)
from ors_server.console.pages import Pages
from ors_server.console.play_pages import PlayPages
from ors_server.console.public_pages import PublicPages
from ors_server.console.server_pages import ServerPages
from ors_server.console.views import formats
from ors_server.doors.access import Keyring, Role
from ors_server.doors.control.app import ControlApp, send_events
from ors_server.doors.http import messages as http
from ors_server.doors.http.faults import extra_headers, look_up
from ors_server.doors.http.request_errors import MethodNotAllowedError, UnknownPathError
from ors_server.doors.mcp.session_access import AttemptLimits
from ors_server.model.clock import Clock
from ors_server.model.errors import (
    ForbiddenError,
    MalformedRequestError,
    OrsServerError,
    UnauthenticatedError,
)
from ors_server.model.logs import get_logger
from ors_server.model.settings import Settings
from ors_server.sessions.manager import SessionManager

log = get_logger("ors_server.console")

CONSOLE_PATH = "/console"
TEMPLATES = Path(__file__).parent / "templates"
MAX_FORM_BYTES = 1024 * 1024
"""Bytes of one form: a tool call typed by hand, with its arguments."""
FOREVER = "public, max-age=31536000, immutable"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "font-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
GUARDS: Mapping[str, str] = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    # Under `no-referrer` a browser sends forms with the Origin `null`, which could be any stranger's.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "x-frame-options": "DENY",
    "cache-control": "no-store",
}
"""Headers of every answer; static files are cached."""
_UNSAFE = re.compile(r"[^\x21-\x7e]|[\\]|//")
"""What a browser may read as another host in an address of this one."""


_ACCEPTS_GZIP = re.compile(r"(?:^|[,\s])gzip(?!\s*;\s*q=0(?:\.0*)?(?:\s*(?:,|$)))")
"""A browser's list of codings that has gzip with a weight above 0."""

STATIC = (Path(__file__).parent / "static", Path(charts.__file__).parent)
STATIC_TYPES: Mapping[str, bytes] = {
    ".css": b"text/css; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
    ".svg": b"image/svg+xml",
}
"""Only these are served; licences and lists in the same folder are for readers of the source."""
SHOWN_DIGITS = 12
"""Hexadecimal digits of a hash in an address."""


@dataclass(frozen=True)
class StaticFile:
    """One file."""

    name: str
    content: bytes
    content_type: bytes

    @cached_property
    def address(self) -> str:
        """Its path below the console's: another content has another address."""
        return f"static/{hashlib.sha256(self.content).hexdigest()[:SHOWN_DIGITS]}/{self.name}"

    @cached_property
    def compressed(self) -> bytes:
        """The content in gzip; compressed once, for the first browser."""
        return gzip.compress(self.content, compresslevel=9, mtime=0)


@cache
def load_static_files() -> Mapping[str, StaticFile]:
    """Return every file by its name."""
    paths = (path for folder in STATIC for path in sorted(folder.iterdir()) if path.suffix in STATIC_TYPES)
    return {path.name: StaticFile(path.name, path.read_bytes(), STATIC_TYPES[path.suffix]) for path in paths}


@dataclass(frozen=True, slots=True)
class _Visit:
    """A request before it is known who asks."""

    method: str
    segments: Sequence[str]
    headers: Mapping[str, str]
    base_url: str
    address: str
    """Of the peer."""
    query: str

    @property
    def cookie_name(self) -> str:
        """The cookie's name: cookies are shared between ports, so the port is part of it."""
        parts = urlsplit(self.base_url)
        port = parts.port or (443 if self.is_secure else 80)
        return f"{'__Host-' if self.is_secure else ''}ors_console_{port}"

    @property
    def is_secure(self) -> bool:
        return self.base_url.startswith("https:")

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The query, in order; `MalformedRequestError` if it is too long."""
        try:
            return parse_qsl(self.query, keep_blank_values=True, max_num_fields=MAX_FIELDS)
        except ValueError:
            raise MalformedRequestError(f"a query has at most {MAX_FIELDS} fields") from None

    def address_below(self, root: str) -> str:
        """Return the page's address as links have it."""
        path = root + "".join(f"/{quote(part, safe='')}" for part in self.segments)
        return path + (f"?{self.query}" if self.query else "")

    @property
    def cookie(self) -> str | None:
        pairs = (part.strip().partition("=") for part in self.headers.get("cookie", "").split(";"))
        return next((value for name, _, value in pairs if name == self.cookie_name), None)


class ConsoleApp:
    """Serves everything below `/console`."""

    def __init__(
        self,
        routes: Sequence[Route],
        templates: Environment,
        stop: Callable[[], None],
        keyring: Keyring,
        settings: Settings,
        clock: Clock,
    ) -> None:
        """Serve pages.

        Args:
            routes: Every page but the sign-in; of two that fit a path, the first one counts.
            stop: Ends every live stream soon, because a server that stops waits for them.
        """
        self._keyring = keyring
        self._guards: Mapping[str, str] = GUARDS
        if keyring.is_public and settings.allowed_frames:
            frames = f"frame-ancestors {' '.join(settings.allowed_frames)}"
            policy = POLICY.replace("frame-ancestors 'none'", frames)
            rest = {name: value for name, value in GUARDS.items() if name != "x-frame-options"}
            self._guards = {**rest, "content-security-policy": policy}
        self._public_url = settings.public_url
        self._root = str(templates.globals["root"])
        self._sessions = BrowserSessions(keyring, clock)
        self._static = load_static_files()
        self._templates = templates
        self.stop, self.routes = stop, routes

    async def __call__(self, scope: http.Scope, receive: http.Receive, send: http.Send) -> None:
        """Serve one HTTP request."""
        headers = http.read_headers(scope)
        raw_path = (scope.get("raw_path") or scope["path"].encode()).decode("latin-1")
        visit = _Visit(
            method=scope["method"],
            segments=[unquote(part) for part in raw_path.split("/")[2:] if part],
            headers=headers,
            base_url=self._public_url or http.base_url(scope, headers),
            address=(scope.get("client") or ("",))[0],
            query=scope["query_string"].decode("latin-1"),
        )
        session: BrowserSession | None = None
        try:
            if visit.segments[:1] == ["static"] and visit.method == "GET":
                await self._send_static(visit, send)
                return
            session = self._session_of(visit, scope)
            form: Mapping[str, str] = {}
            if visit.method == "POST":
                form = await self._read_form(visit, session, receive)
            if visit.segments in (["sign-in"], ["sign-out"]) and not self._keyring.is_public:
                await self._sign(visit, session, form, send)
                return
            if session is None:
                await self._send_to_sign_in(visit, send)
                return
            answer = await self._answer(visit, session, form)
            if isinstance(answer, LiveEvents):
                guards = [
                    (name.encode(), value.encode())
                    for name, value in self._guards.items()
                    if name != "cache-control"
                ]
                await send_events(
                    answer.pieces, receive, send, partial(self._sessions.is_valid, session), guards
                )
            else:
                await self._send(answer, session, visit, send)
        except http.ClientGoneError:
            return
        except OrsServerError as error:
            await self._send_error(error, session, visit, send)
        except Exception:  # the border between a defect of ours and the browser
            log.exception("console_defect", path=raw_path)
            failure = OrsServerError("the server failed; its log has the details")
            await self._send_error(failure, session, visit, send)

    def _session_of(self, visit: _Visit, scope: http.Scope) -> BrowserSession | None:
        """Return the session of a browser; on a public server each is a visitor, and no cookie counts."""
        if self._keyring.is_public:
            return BrowserSession(self._keyring.caller_of({}, scope), self._sessions.anonymous_csrf)
        return self._sessions.find(visit.cookie)

    async def _answer(self, visit: _Visit, session: BrowserSession, form: Mapping[str, str]) -> Answer:
        allowed: list[str] = []
        for route in self.routes:
            path = route.match(visit.segments)
            if path is not None and route.method == visit.method:
                request = PageRequest(
                    session,
                    path,
                    visit.pairs,
                    form,
                    visit.base_url,
                    visit.query,
                    self._root,
                )
                return await route.handler(request)
            if path is not None:
                allowed.append(route.method)
        if allowed:
            raise MethodNotAllowedError(f"this page takes {', '.join(allowed)}", allowed=allowed)
        raise UnknownPathError("the console has no such page")

    # Forms

    async def _read_form(
        self, visit: _Visit, session: BrowserSession | None, receive: http.Receive
    ) -> Mapping[str, str]:
        """Read a form that this server's own page has sent; `ForbiddenError` for any other."""
        body = await http.read_body(receive, MAX_FORM_BYTES, is_json=False)
        parts = urlsplit(visit.base_url)
        own = f"{parts.scheme}://{parts.netloc}".lower()
        if visit.headers.get("origin", "").lower() != own:
            raise ForbiddenError(f"this form was not sent from a page of {own}; open the console there")
        try:
            pairs = parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=MAX_FIELDS)
        except (UnicodeDecodeError, ValueError):
            raise ForbiddenError("this is not a form of the console") from None
        form = dict(pairs)
        expected = self._sessions.anonymous_csrf if session is None else session.csrf
        if not is_same(expected, form.get("csrf", "")):
            raise ForbiddenError("this form is from an earlier session; go back, reload the page, and repeat")
        return form

    async def _sign(
        self, visit: _Visit, session: BrowserSession | None, form: Mapping[str, str], send: http.Send
    ) -> None:
        secure = "; Secure" if visit.is_secure else ""
        scope = f"Path={'/' if visit.is_secure else self._root}; HttpOnly; SameSite=Lax{secure}"
        if visit.segments == ["sign-out"]:
            if visit.method != "POST":
                raise MethodNotAllowedError("signing out takes POST", allowed=["POST"])
            self._sessions.sign_out(visit.cookie)
            log.info("console_sign_out", credential_id=session and session.caller.credential_id)
            await self._redirect(
                f"{self._root}/sign-in",
                send,
                {"set-cookie": f"{visit.cookie_name}=; Max-Age=0; {scope}", "clear-site-data": '"cache"'},
            )
            return
        if visit.method not in {"GET", "POST"}:
            raise MethodNotAllowedError("signing in takes GET and POST", allowed=["GET", "POST"])
        pairs = dict(visit.pairs)
        wanted = form.get("next") or pairs.get("next") or self._root
        target = wanted if wanted.startswith(self._root) and not _UNSAFE.search(wanted) else self._root
        error: OrsServerError | None = None
        if visit.method == "POST":
            try:
                cookie = self._sessions.sign_in(form.get("key", "").strip(), visit.address)
            except OrsServerError as refusal:
                log.warning("console_sign_in_refused", address=visit.address, code=refusal.code)
                error = refusal
            else:
                entered = self._sessions.find(cookie)
                log.info(
                    "console_sign_in",
                    address=visit.address,
                    credential_id=entered and entered.caller.credential_id,
                )
                await self._redirect(
                    target,
                    send,
                    {"set-cookie": f"{visit.cookie_name}={cookie}; Max-Age={MAX_SECONDS:.0f}; {scope}"},
                )
                return
        elif session is not None:
            await self._redirect(target, send)
            return
        message = None if error is None else f"{str(error)[:1].upper()}{str(error)[1:]}."
        if isinstance(error, UnauthenticatedError):
            message = "The server does not know this key, or it has expired."
        status = 200 if error is None else look_up(error).status
        page = Page("sign_in", lambda: {"target": target, "message": message}, status)
        extra = {} if error is None else extra_headers(error)
        extra.pop("www-authenticate", None)  # a browser would ask for a password
        await self._send(page, None, visit, send, extra)

    async def _send_to_sign_in(self, visit: _Visit, send: http.Send) -> None:
        """Lead a browser to the sign-in; a script of a page gets 401, for its session is over."""
        if visit.method != "GET" or "hx-request" in visit.headers or visit.segments[-1:] == ["events"]:
            await http.send_pieces(send, 401, (b"Signed out",), b"text/plain", self._guards)
            return
        target = visit.address_below(self._root)
        await self._redirect(f"{self._root}/sign-in?next={quote(target, safe='')}", send)

    # Answers

    async def _send(
        self,
        answer: Answer,
        session: BrowserSession | None,
        visit: _Visit,
        send: http.Send,
        extra: Mapping[str, str] | None = None,
    ) -> None:
        match answer:
            case Page():
                shell = self._shell(session, visit)
                body = await anyio.to_thread.run_sync(partial(self._render, answer, shell))
                headers = {**self._guards, **(extra or {})}
                if answer.refresh is not None:
                    headers["refresh"] = str(answer.refresh)
                await http.send_pieces(send, answer.status, (body,), b"text/html; charset=utf-8", headers)
            case Redirect(location=location):
                await self._redirect(location, send)
            case Download(content=content, content_type=content_type, name=name):
                headers = {**self._guards, "content-security-policy": "default-src 'none'; sandbox"}
                if name is not None:
                    headers["content-disposition"] = f"attachment; filename*=UTF-8''{quote(name, safe='')}"
                await http.send_pieces(send, 200, (content,), content_type.encode("latin-1"), headers)
            case LiveEvents():
                raise TypeError("events are sent by their own method")

    def _render(self, page: Page, shell: Mapping[str, Any]) -> bytes:
        template = self._templates.get_template(f"{page.template}.html.j2")
        return template.render(**shell, **page.build()).encode(errors="replace")

    def _shell(self, session: BrowserSession | None, visit: _Visit) -> Mapping[str, Any]:
        """Return what every template knows."""
        caller = None if session is None else session.caller
        return {
            "section": visit.segments[0] if visit.segments else "",
            "csrf": self._sessions.anonymous_csrf if session is None else session.csrf,
            "reader": None if caller is None else caller.credential_id,
            "is_signed_in": session is not None and not self._keyring.is_public,
            "is_public": self._keyring.is_public,
            "is_admin": caller is not None and caller.role >= Role.ADMIN,
            "is_open": self._keyring.is_open,
        }

    async def _send_error(
        self, error: OrsServerError, session: BrowserSession | None, visit: _Visit, send: http.Send
    ) -> None:
        fault = look_up(error)
        status = fault.control_status
        values = {
            "status": status,
            "code": error.code,
            "message": str(error),
            "again": visit.address_below(self._root) if visit.method == "GET" else None,
        }
        # What machinery refuses may be there again soon: the page then comes back by itself.
        refresh = 5 if status in {429, 503} and visit.method == "GET" else None
        extra = extra_headers(error)
        extra.pop("www-authenticate", None)
        if isinstance(error, MethodNotAllowedError):
            extra["allow"] = ", ".join(error.allowed)
        await self._send(Page("error", lambda: values, status, refresh), session, visit, send, extra)

    async def _redirect(self, location: str, send: http.Send, extra: Mapping[str, str] | None = None) -> None:
        headers = {**self._guards, "location": location, **(extra or {})}
        await http.send_pieces(send, 303, (b"",), b"text/plain", headers)

    async def _send_static(self, visit: _Visit, send: http.Send) -> None:
        name = visit.segments[-1]
        file = self._static.get(name)
        if file is None or "/".join(visit.segments) != file.address:
            raise UnknownPathError("the console has no such file")
        headers = {**self._guards, "cache-control": FOREVER, "vary": "Accept-Encoding"}
        content = file.content
        if _ACCEPTS_GZIP.search(visit.headers.get("accept-encoding", "").lower()):
            content = await anyio.to_thread.run_sync(lambda: file.compressed)
            headers["content-encoding"] = "gzip"
        await http.send_pieces(send, 200, (content,), file.content_type, headers)


def _make_templates(public_url: str | None) -> Environment:
    """Return the templates: every value is escaped, and a name that is missing is a defect."""
    root = urlsplit(public_url or "").path + CONSOLE_PATH
    # Files end in .html.j2, so the choice by name would miss them: everything is escaped.
    templates = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        finalize=formats.finalise,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    values: dict[str, Any] = templates.globals
    values |= {
        "root": root,
        "version": __version__,
        "static": {name: f"{root}/{file.address}" for name, file in load_static_files().items()},
    }
    templates.filters.update(
        reward=formats.reward,
        amount=formats.amount,
        share=formats.share,
        duration=formats.duration,
        count=formats.count,
        moment=formats.moment,
        path_part=formats.path_part,
        query=formats.query,
        sign=formats.sign_class,
    )
    return templates


def open_console(
    control: ControlApp,
    manager: SessionManager,
    keyring: Keyring,
    settings: Settings,
    clock: Clock,
) -> ConsoleApp:
    """Put the console of a running server together."""
    store, templates = manager.services.store, _make_templates(settings.public_url)
    episodes = EpisodePages(store, manager, clock, settings.sse_ping_seconds, control.batches, templates)
    alarms, handlers = control.episodes.alarms, control.handlers
    server = ServerPages(store, manager, handlers, keyring, clock, alarms, settings.audits)
    play = PlayPages(store, manager, handlers, clock)
    actions = ActionPages(store, handlers, control.episodes, control.jobs)
    if keyring.is_public:
        attempts = AttemptLimits(manager, settings.attempts_per_task)
        public = PublicPages(store, manager, handlers, keyring, attempts)
        return ConsoleApp(public.routes(), templates, episodes.stop, keyring, settings, clock)
    pages = Pages(store, clock, alarms, episodes, server, play, actions)
    return ConsoleApp(pages.routes(), templates, episodes.stop, keyring, settings, clock)
