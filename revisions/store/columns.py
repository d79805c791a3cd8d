"""Column types that differ between the databases, the metadata of all tables, and text that both databases store."""

from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import BigInteger, Dialect, MetaData, String, Text, TypeDecorator
from sqlalchemy.dialects import postgresql
from sqlalchemy.types import TypeEngine

_FIXED_WIDTH = "%Y-%m-%dT%H:%M:%S.%fZ"


def storable(text: str, longest: int) -> str:
    """Return a text that both databases store: no NUL, no lone surrogates, at most `longest` characters."""
    return text[:longest].replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()


metadata = MetaData(
    naming_convention={
        "pk": "%(table_name)s_pkey",
        "uq": "%(table_name)s_%(column_0_N_name)s_key",
        "ix": "%(table_name)s_%(column_0_N_name)s_idx",
        "ck": "%(table_name)s_%(constraint_name)s",
    }
)


class Instant(TypeDecorator[datetime]):
    """Aware UTC instant: `timestamptz` on PostgreSQL; on SQLite text of fixed width, which sorts by time."""

    impl = String(27)
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        if dialect.name == "postgresql":
            return dialect.type_descriptor(postgresql.TIMESTAMP(timezone=True))
        return dialect.type_descriptor(String(27))

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> Any:
        if value is None or dialect.name == "postgresql":
            return value
        return value.astimezone(UTC).strftime(_FIXED_WIDTH)

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        if isinstance(value, str):
            return datetime.strptime(value, _FIXED_WIDTH).replace(tzinfo=UTC)
        result: datetime = value.astimezone(UTC)
        return result


class Word(TypeDecorator[StrEnum]):
    """Text that is read as a member of an enum; raises ValueError for a text that the enum does not take."""

    impl = Text
    cache_ok = True

    def __init__(self, words: type[StrEnum]) -> None:
        super().__init__()
        self.words = words

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return None if value is None else str(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> StrEnum | None:
        return None if value is None else self.words(value)


class TransactionId(TypeDecorator[int]):
    """Transaction id: `xid8` on PostgreSQL, a number on SQLite."""

    impl = BigInteger
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        if dialect.name == "postgresql":
            return dialect.type_descriptor(_Xid8())
        return dialect.type_descriptor(BigInteger())


class _Xid8(TypeEngine[int]):
    __visit_name__ = "xid8"

    def _compiler_dispatch(self, visitor: Any, **options: Any) -> str:
        return "xid8"


postgresql.base.ischema_names["xid8"] = _Xid8  # so that reflection knows the type
