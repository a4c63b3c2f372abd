"""The console's ASGI application: who may look, which page answers, and what every answer forbids a browser.

It decides nothing about episodes: pages read the record and the session manager as the control API does, and
change nothing but over the same methods.
"""

import gzip
import hashlib
import hmac
import re
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlsplit

import anyio.to_thread
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from ors_server import charts
from ors_server.console.browser_sessions import MAX_SECONDS, BrowserSessions
from ors_server.console.episode_pages import EpisodePages
from ors_server.console.page_types import (
    MAX_FIELDS,
    Answer,
    Download,
    Page,
    PageRequest,
    Redirect,
    Route,
)
from ors_server.console.pages import Pages
from ors_server.console.play_pages import PlayPages
from ors_server.console.public_pages import PublicPages
from ors_server.console.server_pages import ServerPages
from ors_server.console.views import comparison, environments, episode, formats, marks
from ors_server.doors.access import OPEN_CALLER, Keyring
from ors_server.doors.control.app import ControlApp, send_events
from ors_server.doors.http import messages as http
from ors_server.doors.http.faults import extra_headers, look_up
from ors_server.doors.http.request_errors import MethodNotAllowedError, UnknownPathError
from ors_server.doors.mcp.session_access import AttemptLimits
from ors_server.model.clock import Clock
from ors_server.model.errors import (
    ForbiddenError,
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
HASH_DIGITS = 12
"""Hexadecimal digits of a hash in an address."""


@dataclass(frozen=True)
class StaticFile:
    """One file."""

    address: str
    """Its path below the console's: another content has another address."""
    content: bytes
    content_type: bytes

    @cached_property
    def compressed(self) -> bytes:
        """The content in gzip; compressed once, for the first browser."""
        return gzip.compress(self.content, compresslevel=9, mtime=0)


@cache
def load_static_files() -> Mapping[str, StaticFile]:
    """Return every file by its name."""
    files: dict[str, StaticFile] = {}
    for path in (path for folder in STATIC for path in folder.iterdir() if path.suffix in STATIC_TYPES):
        content = path.read_bytes()
        address = f"static/{hashlib.sha256(content).hexdigest()[:HASH_DIGITS]}/{path.name}"
        files[path.name] = StaticFile(address, content, STATIC_TYPES[path.suffix])
    return files


class ConsoleApp:
    """Serves everything below `/console`."""

    def __init__(self, templates: Environment, keyring: Keyring, settings: Settings, clock: Clock) -> None:
        """Serve pages."""
        self._keyring = keyring
        self._guards: Mapping[str, str] = GUARDS
        if keyring.is_public and settings.allowed_frames:
            frames = f"frame-ancestors {' '.join(settings.allowed_frames)}"
            policy = POLICY.replace("frame-ancestors 'none'", frames)
            rest = {name: value for name, value in GUARDS.items() if name != "x-frame-options"}
            self._guards = {**rest, "content-security-policy": policy}
        self._public_url = settings.public_url
        self._root = str(templates.globals["root"])
        self._sessions, self._clock = BrowserSessions(keyring, clock), clock
        self._static = load_static_files()
        self._templates = templates
        self.routes: Sequence[Route] = ()
        """Every page; of two that fit a path, the first one counts."""
        self.stop: Callable[[], None] = lambda: None
        """Ends every live stream soon, because a server that stops waits for them."""

    async def __call__(self, scope: http.Scope, receive: http.Receive, send: http.Send) -> None:
        """Serve one HTTP request."""
        headers = http.read_headers(scope)
        raw_path = (scope.get("raw_path") or scope["path"].encode()).decode("latin-1")
        request = PageRequest(
            method=scope["method"],
            segments=[unquote(part) for part in raw_path.split("/")[2:] if part],
            headers=headers,
            base_url=self._public_url or http.base_url(scope, headers),
            root=self._root,
            address=(scope.get("client") or ("",))[0],
            query_string=scope["query_string"].decode("latin-1"),
            session=self._sessions.open_for(OPEN_CALLER, is_anonymous=True),
        )
        try:
            if request.segments[:1] == ["static"] and request.method == "GET":
                await self._send_static(request, send)
                return
            session = self._sessions.find(_read_cookie(request))
            if self._keyring.is_public:  # each browser is a visitor there, and no cookie counts
                session = self._sessions.open_for(self._keyring.caller_of({}, scope))
            request = replace(request, session=session)
            if request.method == "POST":
                request = replace(request, form=await self._read_form(request, receive))
            answer = await self._answer(request)
            if isinstance(answer, AsyncGenerator):
                guards = self._guards.items()
                extra = [(name.encode(), value.encode()) for name, value in guards if name != "cache-control"]
                await send_events(answer, receive, send, partial(self._sessions.is_valid, session), extra)
            else:
                await self._send(answer, request, send)
        except http.ClientGoneError:
            return
        except OrsServerError as error:
            await self._send(_error_page(error, request), request, send)
        except Exception:  # the border between a defect of ours and the browser
            log.exception("console_defect", path=raw_path)
            failure = OrsServerError("the server failed; its log has the details")
            await self._send(_error_page(failure, request), request, send)

    async def _answer(self, request: PageRequest) -> Answer:
        if request.session.is_anonymous and request.segments not in (["sign-in"], ["sign-out"]):
            # A script of a page is not led to another page: its session is over.
            is_script = "hx-request" in request.headers or request.segments[-1:] == ["events"]
            if request.method != "GET" or is_script:
                raise UnauthenticatedError("signed out")
            return Redirect(f"{self._root}/sign-in?next={quote(request.own_address, safe='')}")
        allowed: list[str] = []
        for route in self.routes:
            path = route.match(request.segments)
            if path is not None and route.method == request.method:
                return await route.handler(replace(request, path=path))
            if path is not None:
                allowed.append(route.method)
        if allowed:
            raise MethodNotAllowedError(f"this page takes {', '.join(allowed)}", allowed=allowed)
        raise UnknownPathError("the console has no such page")

    async def _read_form(self, request: PageRequest, receive: http.Receive) -> Mapping[str, str]:
        """Read a form that this server's own page has sent; `ForbiddenError` for any other."""
        body = await http.read_body(receive, MAX_FORM_BYTES, is_json=False)
        parts = urlsplit(request.base_url)
        own = f"{parts.scheme}://{parts.netloc}".lower()
        if request.headers.get("origin", "").lower() != own:
            raise ForbiddenError(f"this form was not sent from a page of {own}; open the console there")
        try:
            pairs = parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=MAX_FIELDS)
        except (UnicodeDecodeError, ValueError):
            raise ForbiddenError("this is not a form of the console") from None
        form = dict(pairs)
        if not hmac.compare_digest(request.session.csrf.encode(), form.get("csrf", "").encode()):
            raise ForbiddenError("this form is from an earlier session; go back, reload the page, and repeat")
        return form

    # Signing in

    async def show_sign_in(self, request: PageRequest) -> Answer:
        """Ask for a key; lead a browser that is signed in on."""
        if not request.session.is_anonymous:
            return Redirect(self._target_of(request))
        return self._sign_in_page(request, None)

    async def sign_in(self, request: PageRequest) -> Answer:
        """Exchange a key for a session."""
        try:
            cookie = self._sessions.sign_in(request.form.get("key", "").strip(), request.address)
        except OrsServerError as refusal:
            log.warning("console_sign_in_refused", address=request.address, code=refusal.code)
            return self._sign_in_page(request, refusal)
        key_id = self._sessions.find(cookie).caller.credential_id
        log.info("console_sign_in", address=request.address, credential_id=key_id)
        cookie = _write_cookie(request, cookie, MAX_SECONDS)
        return Redirect(self._target_of(request), {"set-cookie": cookie})

    async def sign_out(self, request: PageRequest) -> Answer:
        """Revoke the session of a browser."""
        self._sessions.sign_out(_read_cookie(request))
        log.info("console_sign_out", credential_id=request.session.caller.credential_id)
        headers = {"set-cookie": _write_cookie(request, "", 0), "clear-site-data": '"cache"'}
        return Redirect(f"{self._root}/sign-in", headers)

    def _target_of(self, request: PageRequest) -> str:
        """Return the page of the console to which a sign-in leads."""
        target = request.form.get("next") or request.value("next") or self._root
        return target if target.startswith(self._root) and not _UNSAFE.search(target) else self._root

    def _sign_in_page(self, request: PageRequest, error: OrsServerError | None) -> Page:
        values = {"target": self._target_of(request), "message": None}
        if error is None:
            return Page("sign_in", values)
        message = f"{str(error)[:1].upper()}{str(error)[1:]}."
        if isinstance(error, UnauthenticatedError):
            message = "The server does not know this key, or it has expired."
        return Page("sign_in", {**values, "message": message}, look_up(error).status, _headers_of(error))

    # Answers

    async def _send(self, answer: Page | Redirect | Download, request: PageRequest, send: http.Send) -> None:
        match answer:
            case Page():
                body = await anyio.to_thread.run_sync(self._render, answer, request)
                headers = {**self._guards, **answer.headers}
                await http.send_pieces(send, answer.status, (body,), b"text/html; charset=utf-8", headers)
            case Redirect():
                headers = {**self._guards, "location": answer.location, **answer.headers}
                await http.send_pieces(send, 303, (b"",), b"text/plain", headers)
            case Download(content=content, content_type=content_type, name=name):
                headers = {**self._guards, "content-security-policy": "default-src 'none'; sandbox"}
                if name is not None:
                    headers["content-disposition"] = f"attachment; filename*=UTF-8''{quote(name, safe='')}"
                await http.send_pieces(send, 200, (content,), content_type.encode("latin-1"), headers)

    def _render(self, page: Page, request: PageRequest) -> bytes:
        session = request.session
        shell: Mapping[str, Any] = {
            "section": request.segments[0] if request.segments else "",
            "csrf": session.csrf,
            "reader": session.caller.credential_id,
            "is_signed_in": not session.is_anonymous and not self._keyring.is_public,
            "is_open": self._keyring.is_open,
            "base_url": request.base_url,
            "form": request.form,
            "now": self._clock.now(),
        }
        template = self._templates.get_template(f"{page.template}.html.j2")
        return template.render(**shell, **page.values).encode(errors="replace")

    async def _send_static(self, request: PageRequest, send: http.Send) -> None:
        name = request.segments[-1]
        file = self._static.get(name)
        if file is None or "/".join(request.segments) != file.address:
            raise UnknownPathError("the console has no such file")
        headers = {**self._guards, "cache-control": FOREVER, "vary": "Accept-Encoding"}
        content = file.content
        if _ACCEPTS_GZIP.search(request.headers.get("accept-encoding", "").lower()):
            content = await anyio.to_thread.run_sync(lambda: file.compressed)
            headers["content-encoding"] = "gzip"
        await http.send_pieces(send, 200, (content,), file.content_type, headers)


def _headers_of(error: OrsServerError) -> dict[str, str]:
    """Return the headers that an error adds; without those for which a browser would ask for a password."""
    headers = extra_headers(error)
    headers.pop("www-authenticate", None)
    return headers


def _error_page(error: OrsServerError, request: PageRequest) -> Page:
    """Return the page of an error; what machinery refuses may be there again soon, so the page comes back."""
    status, is_read = look_up(error).control_status, request.method == "GET"
    headers = _headers_of(error)
    if isinstance(error, MethodNotAllowedError):
        headers["allow"] = ", ".join(error.allowed)
    if status in {429, 503} and is_read:
        headers["refresh"] = "5"
    again = request.own_address if is_read else None
    values = {"status": status, "code": error.code, "message": str(error), "again": again}
    return Page("error", values, status, headers)


def _cookie_name(request: PageRequest) -> str:
    """Return the cookie's name: cookies are shared between ports, so the port is part of it."""
    parts = urlsplit(request.base_url)
    is_secure = parts.scheme == "https"
    return f"{'__Host-' if is_secure else ''}ors_console_{parts.port or (443 if is_secure else 80)}"


def _read_cookie(request: PageRequest) -> str | None:
    pairs = (part.strip().partition("=") for part in request.headers.get("cookie", "").split(";"))
    return next((value for name, _, value in pairs if name == _cookie_name(request)), None)


def _write_cookie(request: PageRequest, value: str, seconds: float) -> str:
    """Return a cookie; of the whole host on TLS, as its name demands there."""
    is_secure = request.base_url.startswith("https:")
    scope = (
        f"Path={'/' if is_secure else request.root}; HttpOnly; SameSite=Lax{'; Secure' if is_secure else ''}"
    )
    return f"{_cookie_name(request)}={value}; Max-Age={seconds:.0f}; {scope}"


def _make_templates(public_url: str | None) -> Environment:
    """Return the templates: every value is escaped, and a name that is missing is a defect."""
    root = urlsplit(public_url or "").path + CONSOLE_PATH
    # Files end in .html.j2, so the choice by name would miss them: everything is escaped.
    templates = Environment(
        loader=FileSystemLoader((TEMPLATES, Path(charts.__file__).parent)),
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
        "static": {name: f"{root}/{file.address}" for name, file in load_static_files().items()},
    }
    templates.policies["json.dumps_kwargs"] = {"ensure_ascii": False}
    # Every function of these modules is a filter under its own name.
    views = (formats, marks, episode, environments, comparison)
    named = ((view.__name__, name, part) for view in views for name, part in vars(view).items())
    filters: dict[str, Any] = templates.filters
    filters |= {name: part for module, name, part in named if getattr(part, "__module__", "") == module}
    return templates


def open_console(
    control: ControlApp,
    manager: SessionManager,
    keyring: Keyring,
    settings: Settings,
    clock: Clock,
) -> ConsoleApp:
    """Put the console of a running server together."""
    templates = _make_templates(settings.public_url)
    console = ConsoleApp(templates, keyring, settings, clock)
    common = (manager.services.store, manager, control.handlers, clock)
    if keyring.is_public:
        console.routes = PublicPages(
            *common, keyring, AttemptLimits(manager, settings.attempts_per_task)
        ).routes()
        return console
    alarms = control.episodes.alarms
    jobs, batches = control.jobs, control.batches
    ping = settings.sse_ping_seconds
    episodes = EpisodePages(*common, ping, batches, control.episodes, jobs, templates)
    server = ServerPages(*common, keyring, alarms, settings.audits)
    pages = Pages(*common, alarms, episodes, server, PlayPages(*common))
    console.stop = episodes.stop
    console.routes = (
        *pages.routes(),
        Route("GET", "sign-in", console.show_sign_in),
        Route("POST", "sign-in", console.sign_in),
        Route("POST", "sign-out", console.sign_out),
    )
    return console
