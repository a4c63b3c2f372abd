"""The examples that the help of each command ends with."""

EXAMPLES: dict[str, tuple[str, ...]] = {
    "serve": (
        "ors-server serve math_word_problems --port 9000",
        "ors-server serve train.jsonl --recipe gsm8k",
    ),
    "list": ("ors-server list", "ors-server list ./words.py --json"),
    "play": ("ors-server play shell --index 3",),
    "call": (
        """ors-server call math_word_problems calculator '{"expression": "1/3 + 1/6"}'""",
        """ors-server call http://127.0.0.1:8080 search '{"query": "moon"}'""",
    ),
    "mcp install": (
        "ors-server mcp install claude math_word_problems --print",
        "ors-server mcp install vscode --url http://127.0.0.1:8080 --key --project",
    ),
    "check": (
        "ors-server check ./words.py --quiet",
        "ors-server check http://127.0.0.1:8080/mcp --mcp",
    ),
    "audit": ("ors-server audit ./words.py --report audit.html",),
    "tasks": ("ors-server tasks qa", "ors-server tasks train.jsonl --recipe gsm8k --against test=test.jsonl"),
    "import": ("ors-server import gymnasium/FrozenLake-v1 --check",),
    "eval": (
        "ors-server eval qa --agent oracle --limit 4 --attempts 2 --output oracle",
        "ors-server eval qa --agent openai:MODEL --report report.html",
    ),
    "report": ("ors-server report oracle --html report.html",),
    "compare": ("ors-server compare first second --html comparison.html",),
    "replay": ("ors-server replay --label attempt=1", "ors-server replay ID"),
    "regrade": ("ors-server regrade --all --reward qa_f1_reward",),
    "export": ("ors-server export trl --min-return 1 -o data/good.jsonl",),
    "score": ("ors-server score answers.jsonl --reward math_equal_reward",),
    "rewards": ("ors-server rewards math_equal_reward",),
    "new": (
        "ors-server new my_environment",
        "ors-server new my_data --declared",
        "ors-server new my_tasks --harbor",
    ),
    "package": (
        "ors-server package ./my_environment --for pip",
        "ors-server package ./my_environment --for openenv -o openenv",
    ),
    "hosts": ("ors-server hosts http://127.0.0.1:8080",),
    "restart": ("ors-server restart http://127.0.0.1:8080",),
    "drain": ("ors-server drain h1 http://127.0.0.1:8080",),
    "front": ("ors-server front ors-0.ors:8080 ors-1.ors:8080 --host 0.0.0.0",),
    "doctor": ("ors-server doctor",),
    "version": ("ors-server version --json",),
    "episodes list": ("ors-server episodes list --environment qa --json",),
    "episodes stats": ("ors-server episodes stats --every 10m --by environment,label:run",),
    "episodes show": ("ors-server episodes show ID --full",),
    "watch": ("ors-server watch --run first --url http://127.0.0.1:8080",),
    "episodes tail": ("ors-server episodes tail --environment qa",),
    "images add": ("ors-server images add debian.tar --name debian:12",),
    "images build": ("ors-server images build ./context --name mine:1 --builder podman",),
    "images list": ("ors-server images list --json",),
    "images rm": ("ors-server images rm debian:12",),
    "images verify": ("ors-server images verify",),
    "store stats": ("ors-server store stats",),
    "store vacuum": ("ors-server store vacuum",),
    "store prune": ("ors-server store prune --retain-days 30",),
    "store migrate": ("ors-server store migrate",),
    "store verify": ("ors-server store verify",),
}
"""Command -> lines to type, which differ from each other in purpose."""


def epilog_of(name: str) -> str:
    """Return the end of a command's help: its examples, each a line that is not broken."""
    lines = EXAMPLES[name]
    return "\n\n".join((f"Example{'s' if lines[1:] else ''}:", *lines))
