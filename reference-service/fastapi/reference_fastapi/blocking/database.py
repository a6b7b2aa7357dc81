"""PostgreSQL before: one pool of synchronous connections for all stores."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from sqlalchemy import URL, create_engine
from sqlalchemy.orm import Session, sessionmaker

from reference_fastapi import statements
from reference_fastapi.settings import POOL_KEPT, POOL_OVERFLOW, WAIT_S
from reference_fastapi.stores import NotMigratedError


@contextmanager
def open_sessions(url: URL) -> Iterator[sessionmaker[Session]]:
    """Open the pool with the connections that it keeps."""
    engine = create_engine(
        url,
        pool_size=POOL_KEPT,
        max_overflow=POOL_OVERFLOW,
        pool_timeout=WAIT_S,
        pool_pre_ping=True,
        connect_args={"connect_timeout": WAIT_S},
    )
    try:
        with ExitStack() as loans:
            kept = [loans.enter_context(engine.connect()) for _ in range(POOL_KEPT)]
            if not kept[0].scalar(statements.FINDS_SCHEMA):
                raise NotMigratedError
        yield sessionmaker(engine)
    finally:
        engine.dispose()
