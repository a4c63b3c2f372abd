"""The two scripts inside every sandbox, and the one line that the server types. Text only.

The init is a small dash (process 1 of a pid namespace): it starts bash on the terminal, starts it again when
it ends, continues it when it stopped itself, and reaps orphans. The rc file makes bash print its marks and
save its state when it ends.

A command is passed in a file, never on the terminal, so nothing in it can be taken for control. The typed
line evaluates it with redirections that apply to this command only, which bash undoes even after `exec
>file`. Names that begin with ``__ors`` belong to the protocol; a command that breaks them only breaks its own
shell, which is then replaced.
"""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field

from ors_server.sandboxes.base import Limits

_INIT = """\
# Process 1 of a session.
{ulimits}
cd {work} 2>/dev/null
set -m
trap : HUP
until [ -e {control}/stop ] || ! [ -t 0 ]; do  # without a terminal the server is dead
  {bash} --noprofile --rcfile {control}/rc --noediting -i
  status=$?
  while kill -0 %% 2>/dev/null; do fg %% >/dev/null 2>&1; status=$?; done
  printf '\\033]ors;x;%s\\007' "$status" >&2
done
sleep 0.1  # dash reaps orphans while it waits for something
"""

# Both parts run outside functions; inside one, what `declare -p` printed would be local.
_RESTORE = """\
if [[ -s $__ors_state/dump ]]; then
  builtin source {state}/dump >/dev/null 2>&1
  set +e +u +x +v +n +T +E
  set +o history +o noclobber
  shopt -u extdebug
  unset TMOUT BASH_XTRACEFD HISTFILE
  PS1= PS2= PS0=
  __ors_control={control} __ors_state={state} __ors_seq=0 __ors_done=-1 __ors_cmd=
  if [[ $__ors_from != {state} ]]; then  # a copy of another session, whose paths may be its own
    for __ors_name in HOME TMPDIR OLDPWD __ors_cwd; do
      printf -v "$__ors_name" %s "${{!__ors_name/#"${{__ors_from%/state}}"/"${{__ors_state%/state}}"}}"
    done
  fi
  cd -- "$__ors_cwd"
  __ors_lost=0
fi 2>/dev/null
: >|"$__ors_state/dump"
"""

# There is one trap on EXIT, and the dump needs it. A command's own trap is looked up when it calls `exit`, or
# contains the word trap, and runs after the dump; a shell that sets one and dies of `set -e` in the same
# command skips it, and loses its state. Looking it up forks, so it is not done around every command, and
# writes no file, which `ulimit -f 0` would make fatal.
_RC = """\
set +o history
set +H
unset HISTFILE MAILCHECK
PS1= PS2= PS0= PS4='+ '
__ors_control={control} __ors_state={state} __ors_seq=0 __ors_done=-1 __ors_rc=0 __ors_cmd= __ors_from=
__ors_trap=
__ors_ret() {{ return "$1"; }}
__ors_end() {{
  builtin local IFS=' '
  __ors_done=$__ors_seq
  if [[ $__ors_cmd == *trap* ]]; then __ors_arm; fi
  case $PWD in
    *[!a-zA-Z0-9/._-]*) builtin printf '\\e]ors;p;%s;%s;%s;%q\\a' "$__ors_seq" "$__ors_rc" "$$" "$PWD" ;;
    *) builtin printf '\\e]ors;p;%s;%s;%s;%s\\a' "$__ors_seq" "$__ors_rc" "$$" "$PWD" ;;
  esac
}}
__ors_prompt() {{
  if [[ $__ors_seq != "$__ors_done" ]]; then __ors_rc=$1; __ors_end; fi
}}
__ors_dump() {{
  {{
    builtin umask -p
    builtin declare -p
    builtin declare -f
    builtin alias -p
    builtin shopt -p
    builtin set +o
    builtin trap -p
    builtin printf '__ors_from=%q __ors_cwd=%q\\n' "$__ors_state" "$PWD"
  }} >|"$__ors_state/dump" 2>/dev/null
  builtin return "$__ors_rc"
}}
__ors_arm() {{
  builtin local now
  now=$(builtin trap -p EXIT) || builtin return
  if [[ $now != *'; __ors_dump; builtin eval "$__ors_trap"'* ]]; then
    builtin eval "set -- ${{now#trap -- }}"
    __ors_trap=${{1-}}
    builtin trap '__ors_rc=$?; __ors_dump; builtin eval "$__ors_trap"' EXIT
  fi
}} 2>/dev/null
exit() {{
  builtin local status=$?
  if [[ $BASHPID == "$$" ]]; then __ors_arm; fi
  builtin exit "${{@:-$status}}"
}}
cd -- "$(<"$__ors_control/cwd")" 2>/dev/null
__ors_lost=1
{restore}__ors_rc=0
__ors_arm
readonly -f __ors_ret __ors_end __ors_prompt __ors_dump __ors_arm
# The shell's first mark has the status 1 if there was no state to restore; the first command reads 0 as `$?`.
__ors_rc=$__ors_lost; __ors_end; __ors_rc=0
PROMPT_COMMAND='__ors_prompt "$?"'
"""

# The dump resets the protocol's counters; the number of this very command is kept for its end.
_RESTORE_COMMAND = """\
set -- "$__ors_seq"
{restore}__ors_seq=$1
set --
"""

_LINE = (
    '__ors_seq={sequence};__ors_cmd=$(<{control}/cmd);__ors_ret "$__ors_rc"&&:;'
    '\\builtin eval -- "$__ors_cmd" </dev/null >{control}/io/o{pipes} 2>{control}/io/e{pipes};'
    "__ors_rc=$?;\\enable eval printf builtin return declare local;__ors_end\n"
)

_SYNC = "\n__ors_seq={sequence};__ors_end\n"

DUMP = "__ors_dump"
"""The command that saves the shell's state for a copy of the sandbox."""


@dataclass(frozen=True)
class SandboxLayout:
    """Paths as the agent's processes see them."""

    work: str
    home: str
    temporary: str
    control: str
    """Written by the server, read by the shell: command, directory, scripts, pipes."""
    state: str
    """Written by the shell: its state."""
    bash: str = "/bin/bash"
    user: str = "agent"
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    """Variables that are added to the shell's usual ones, or replace them."""

    @property
    def environment(self) -> dict[str, str]:
        """The whole environment of the shell; nothing is inherited."""
        return {
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": self.home,
            "TMPDIR": self.temporary,
            "USER": self.user,
            "LOGNAME": self.user,
            "SHELL": "/bin/bash",
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "PAGER": "cat",
            "GIT_PAGER": "cat",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_CONFIG_NOSYSTEM": "1",  # git ends where /etc/gitconfig may not be looked for
            "DEBIAN_FRONTEND": "noninteractive",
            "PYTHONUNBUFFERED": "1",
            **self.variables,
        }


LAYOUT = SandboxLayout(
    work="/work",
    home="/home/agent",
    temporary="/tmp",  # noqa: S108 # the sandbox's own
    control="/run/ors",
    state="/run/ors-state",
)
"""The paths in a sandbox that has its own file system."""


@dataclass(frozen=True)
class EnforcedLimits:
    """The limits that a cgroup enforces, so that `ulimit` need not."""

    memory: bool = False
    pids: bool = False


def ulimits(limits: Limits, enforced: EnforcedLimits) -> str:
    """Return the lines of shell that set every limit of a process, soft and hard."""
    lines = [
        f"ulimit -n {limits.open_files}",
        f"ulimit -f {limits.file_bytes // 512}",  # dash counts blocks of 512 bytes
        "ulimit -c 0",
    ]
    if not enforced.memory:
        lines.append(f"ulimit -d {limits.memory_bytes // 1024}")
    if not enforced.pids:
        lines.append(f"ulimit -p {limits.pids}")
    return "\n".join(lines)


def init_script(layout: SandboxLayout, limits: Limits, enforced: EnforcedLimits) -> str:
    """Return the init script."""
    return _INIT.format(
        ulimits=ulimits(limits, enforced),
        work=shlex.quote(layout.work),
        control=layout.control,
        bash=layout.bash,
    )


def rc_script(layout: SandboxLayout) -> str:
    """Return bash's rc file."""
    return _RC.format(control=layout.control, state=layout.state, restore=_restore(layout))


def restore_command(layout: SandboxLayout) -> str:
    """Return the command that loads the state in the state folder into a shell."""
    return _RESTORE_COMMAND.format(restore=_restore(layout))


def _restore(layout: SandboxLayout) -> str:
    return _RESTORE.format(control=layout.control, state=layout.state)


def typed_line(layout: SandboxLayout, sequence: int, pipes: int) -> bytes:
    """Return the line that runs the command in the control folder."""
    return _LINE.format(control=layout.control, sequence=sequence, pipes=pipes).encode()


def sync_line(sequence: int) -> bytes:
    """Return the line that makes the shell print a mark."""
    return _SYNC.format(sequence=sequence).encode()
