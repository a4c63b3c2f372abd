"""Brings a database to this server's form, in this process and in one transaction."""

from pathlib import Path

from sqlalchemy import Connection, Engine, inspect, text
from sqlalchemy.exc import SQLAlchemyError

from ors_server.errors import SettingsError
from ors_server.store.sql.database import Database, Failure, as_store_error, transaction

REVISIONS = ("0001", "0002", "0003")
"""Every form that the tables have had, oldest first; a test compares them with the migrations."""
NEWEST = REVISIONS[-1]
FOLDER = Path(__file__).parent / "migrations"
_VERSIONS = "alembic_version"


def revision_of(connection: Connection) -> str | None:
    """Return the form of a database's tables; `None` where there are none.

    Args:
        connection: A connection.
    """
    if not inspect(connection).has_table(_VERSIONS):
        return None
    return connection.execute(text(f"SELECT version_num FROM {_VERSIONS}")).scalar()  # noqa: S608  (ours)


def check_revision(database: Database, revision: str | None) -> None:
    """Refuse what this server does not know.

    Args:
        database: Whose it is.
        revision: The form.

    Raises:
        SettingsError: If a newer server made it.
    """
    if revision is not None and revision not in REVISIONS:
        raise SettingsError(
            f"a newer server keeps its record in {database.shown} (form {revision}, this server knows up to "
            f"{NEWEST}); run that server's version, or name another place with --store PATH"
        )


def check_readable(database: Database, connection: Connection) -> None:
    """Refuse to read what is not in this server's form.

    Args:
        database: The database.
        connection: A connection.

    Raises:
        SettingsError: If there is no record, or its form is older or newer.
    """
    revision = revision_of(connection)
    check_revision(database, revision)
    if revision is None:
        raise SettingsError(f"there is no record in {database.shown}")
    if revision != NEWEST:
        raise SettingsError(
            f"the record in {database.shown} has the older form {revision}; "
            f"run: ors-server store migrate --store {database.shown}"
        )


def migrate(database: Database, engine: Engine) -> str | None:
    """Bring a database to this server's form; servers that start at once do it one after another.

    Args:
        database: The database.
        engine: Its writing engine.

    Returns:
        The form that it had; `None` if it was empty.

    Raises:
        SettingsError: If a newer server made it, or its owner does not let us.
        StoreError: If it cannot be reached.
    """
    try:
        with engine.connect() as connection:
            found = revision_of(connection)
            if found != NEWEST:
                with transaction(database, connection):
                    database.lock(connection)
                    found = revision_of(connection)
                    check_revision(database, found)
                    _upgrade(connection)
            return found
    except (SQLAlchemyError, OSError) as error:
        wrong = as_store_error(database, error, "opened")
        if database.sort(error) is not Failure.TELL:
            raise wrong from error
        raise SettingsError(
            f"{wrong}; name another place with --store PATH, or keep it in memory with --store memory"
        ) from error


def _upgrade(connection: Connection) -> None:
    # Only who changes tables pays for loading Alembic.
    from alembic import command  # noqa: PLC0415  (slow to load)
    from alembic.config import Config  # noqa: PLC0415  (as above)

    config = Config()
    config.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
