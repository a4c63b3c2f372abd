"""Migrates a database to this server's schema, in this process and in one transaction."""

from pathlib import Path

from sqlalchemy import Column, Connection, MetaData, String, Table, inspect, text
from sqlalchemy.exc import SQLAlchemyError

from ors_server.model.errors import SettingsError
from ors_server.store.sql.database import (
    Database,
    WriteFailure,
    as_store_error,
    disposed_after,
    transaction,
)
from ors_server.store.sql.record_tables import metadata

REVISIONS = ("0001", "0002", "0003", "0004", "0005", "0006", "0007", "0008", "0009", "0010", "0011")
"""Every version of the schema, oldest first; a test compares them with the migrations."""
NEWEST = REVISIONS[-1]
FOLDER = Path(__file__).parent / "migrations"
_VERSIONS = "alembic_version"


def revision_of(connection: Connection) -> str | None:
    """Return the schema version of a database; `None` if it has no tables."""
    if not inspect(connection).has_table(_VERSIONS):
        return None
    return connection.execute(text(f"SELECT version_num FROM {_VERSIONS}")).scalar()  # noqa: S608  (ours)


def check_revision(database: Database, revision: str | None) -> None:
    """Reject a schema that this server does not know; `SettingsError` if a newer server made it."""
    if revision is not None and revision not in REVISIONS:
        raise SettingsError(
            f"a newer server wrote the episode store {database.display_name} (schema {revision}; this server "
            f"knows up to {NEWEST}); run that server's version, or name another store with --store PATH"
        )


def check_readable(database: Database, connection: Connection) -> None:
    """Reject a database without this server's schema.

    Raises:
        SettingsError: If there is no store, or its schema is older or newer.
    """
    revision = revision_of(connection)
    check_revision(database, revision)
    if revision is None:
        raise SettingsError(f"there is no episode store in {database.display_name}")
    if revision != NEWEST:
        raise SettingsError(
            f"the episode store {database.display_name} has the older schema {revision}; "
            f"run: ors-server store migrate --store {database.display_name}"
        )


def migrate(database: Database) -> str | None:
    """Migrate a database to this server's schema; servers that start together take turns.

    Returns:
        The schema version before; `None` if the database was empty.

    Raises:
        SettingsError: If a newer server made it, or the user may not change it.
        StoreError: If it cannot be reached.
    """
    try:
        with disposed_after(database.writing_engine()) as engine, engine.connect() as connection:
            revision = revision_of(connection)
            if revision != NEWEST:
                with transaction(database, connection):
                    database.lock(connection)
                    revision = revision_of(connection)
                    check_revision(database, revision)
                    if revision is None:
                        _create(connection)
                    else:
                        _upgrade(connection)
            return revision
    except (SQLAlchemyError, OSError) as error:
        wrong = as_store_error(database, error, "opened")
        if database.classify(error) is not WriteFailure.REPORT:
            raise wrong from error
        raise SettingsError(
            f"{wrong}; name another store with --store PATH, or use memory with --store memory"
        ) from error


def _create(connection: Connection) -> None:
    """Make the newest tables in an empty database, without loading Alembic, which is a fifth of a start."""
    metadata.create_all(connection, checkfirst=False)
    versions = Table(_VERSIONS, MetaData(), Column("version_num", String(32), primary_key=True))
    versions.create(connection)
    connection.execute(versions.insert().values(version_num=NEWEST))


def _upgrade(connection: Connection) -> None:
    # Alembic is loaded only for a migration.
    from alembic import command  # noqa: PLC0415  (slow to load)
    from alembic.config import Config  # noqa: PLC0415  (as above)

    config = Config()
    config.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
