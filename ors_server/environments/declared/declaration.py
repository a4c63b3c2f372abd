"""The keys of an `environment.toml`, and their meaning."""

from typing import Annotated, Any, Literal, Self, TypeAlias, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from ors_server.model.policy import EpisodePolicy
from ors_server.model.visibility import Visibility
from ors_server.sandboxes.base import Limits

SplitType: TypeAlias = Literal["train", "validation", "test"]
ColumnType: TypeAlias = Literal["text", "number", "integer", "boolean", "list", "object"]
SPLIT_TYPES: dict[str, SplitType] = {
    "train": "train",
    "training": "train",
    "test": "test",
    "validation": "validation",
    "valid": "validation",
    "val": "validation",
    "dev": "validation",
}
"""Names of splits to their types; a split of another name is of the type `validation`."""


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class SplitData(_Table):
    """The data of one split."""

    data: str
    """A file (.jsonl, .json, .csv, .tsv, each also with .gz, or .parquet), the pattern of shards
    (`train-*.parquet`), a folder of shards or of JSON files that are one row each, or
    `hf:NAME[@CONFIG][:SPLIT]`. A path is relative to the declaration's folder."""
    type: SplitType | None = None
    """By default the one that the split's name says, else `validation`."""


class RewardChoice(_Table):
    """A reward and its options."""

    name: str
    """A name that `ors-server rewards` lists, `module:name`, or `file.py:name`."""
    options: dict[str, Any] = {}
    """Values of the reward's parameters, the same for every task."""
    weight: float = Field(default=1.0, allow_inf_nan=False)
    """Weight in the mean of several rewards."""


def _as_list(value: object) -> object:
    return [value] if isinstance(value, str) else value


class UserReplyTable(_Table):
    """Something that the simulated user says when a message has one of some phrases."""

    asked: Annotated[tuple[str, ...], BeforeValidator(_as_list, json_schema_input_type=str | list[str])]
    """A phrase, or several: words in order, in any case."""
    says: str


class UserTable(_Table):
    """A simulated user. Templates (`{{ field }}`) in its texts read the row."""

    goal: str
    """What the user wants; only a model that plays the user reads it."""
    facts: tuple[UserReplyTable, ...] = ()
    """What the user tells when it is asked."""
    refusals: tuple[UserReplyTable, ...] = ()
    """What the user never does or accepts."""
    answers: tuple[str, ...] = ()
    """What the user says to other messages, one after another."""
    otherwise: str = "I don't know."
    """What the user says to all further messages."""


def _as_split(value: object) -> object:
    return {"data": value} if isinstance(value, str) else value


def _as_rewards(value: object) -> object:
    if isinstance(value, str):
        return [{"name": value}]
    return [cast("object", value)] if isinstance(value, dict) else value


Splits: TypeAlias = dict[
    str, Annotated[SplitData, BeforeValidator(_as_split, json_schema_input_type=str | SplitData)]
]
Rewards: TypeAlias = Annotated[
    tuple[RewardChoice, ...],
    BeforeValidator(_as_rewards, json_schema_input_type=str | RewardChoice | list[RewardChoice]),
]
Sources: TypeAlias = Annotated[
    tuple[str, ...], BeforeValidator(_as_list, json_schema_input_type=str | list[str])
]


class Declaration(_Table):
    """An environment over a data file: every row is a task.

    A text that names a value of the row is the name of a field (`question`), a path into one
    (`answers.text`), or a Jinja template (`{{ question }}`). A template that is a single `{{ expression }}`
    keeps the expression's type.
    """

    schema_: str | None = Field(default=None, alias="$schema")
    """The address of this schema, for editors."""
    name: str | None = None
    """Name under which it is served; the folder's or file's by default."""
    description: str = ""
    """One or more sentences for people who choose an environment."""
    recipe: str | None = None
    """A recipe whose keys are used where this file does not set them."""
    data: str | None = None
    """The data of the only split, as `splits` names it; or use `splits`."""
    splits: Splits = {}
    """Split name to its data: a text, or a table with `data` and `type`."""
    records: str = ""
    """The path to the records in a JSON file that has them deeper than its outermost list, such as
    `data.paragraphs.qas`; each record also has the plain fields of what it is in."""
    columns: dict[str, ColumnType] = {}
    """Types of fields, which are checked; texts of CSV and TSV files are converted."""
    fields: dict[str, Any] = {}
    """Further fields of a task: name to a field's name or a template; other values are constants."""
    paths: tuple[str, ...] = ()
    """Fields of a task that name files below the declaration's folder, such as a database; the reward
    receives the whole path."""
    prompt: str | None = None
    """The prompt: a field's name, or a template."""
    images: Sources = ()
    """Fields with images of the prompt: a file next to the data, a data URL, base64, or a list of these."""
    answer: str | None = None
    """The right answer: a field's name, or a template. Rewards receive it as `answer`."""
    gold: str | None = None
    """The text that the oracle submits; by default the answer, or the first of several."""
    blank: str = ""
    """The text that the no-op agent submits."""
    metadata: tuple[str, ...] | None = None
    """Fields of the row that a task has besides those that this file names; all by default."""
    reward: Rewards = ()
    """The reward: its name, a table with `name` and `options`, or a list of tables with `weight`."""
    toolsets: tuple[str, ...] = ()
    """Toolsets in addition to `submit`: `bash`, `python`, `files`, `patch`, or your own class as
    `module:Class` or `file.py:Class`."""
    user: UserTable | None = None
    """A simulated user, to whom the agent writes with `message_user`."""
    files: dict[str, str] = {}
    """Files of the work dir at the start: path to a field's name or a template."""
    gold_files: dict[str, str] = {}
    """Files that the oracle writes before it submits, with the toolset `files`."""
    sandbox: Limits | None = None
    """Limits of a session's sandbox."""
    sandbox_network: str | tuple[str, ...] = "loopback"
    """What a session's sandbox can connect to: `none`, `loopback`, or a list of hosts, which the operator
    must allow (`--allow-network`)."""
    sandbox_image: str | None = None
    """The image that is the root of a session's sandbox, as `ors-server images list` shows it. A field
    `sandbox_image` of a task names another one."""
    policy: EpisodePolicy | None = None
    """Limits and penalties; the range of rewards is the reward's by default."""
    visibility: Visibility | None = None
    """Which rewards an agent sees; the server's setting by default."""
    return_range: tuple[float, float] | None = None
    """Lowest and highest return of an episode, if every task can earn both."""
    skip_bad: bool = False
    """Whether wrong rows are counted and left out instead of being an error."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.data is not None and self.splits:
            raise ValueError("expected data or splits, not both")
        return self


def split_type(name: str) -> SplitType:
    """Return the type of a split by its name."""
    return SPLIT_TYPES.get(name.lower(), "validation")
