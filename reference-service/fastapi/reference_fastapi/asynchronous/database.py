"""PostgreSQL after: one pool of asynchronous connections for all stores."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from sqlalchemy import URL
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine

from reference_fastapi import statements
from reference_fastapi.settings import POOL_KEPT, POOL_OVERFLOW, WAIT_S
from reference_fastapi.stores import NotMigratedError


@asynccontextmanager
async def open_sessions(url: URL) -> AsyncIterator[async_sessionmaker[AsyncSession]]:
    """Open the pool with the connections that it keeps."""
    engine = create_async_engine(
        url,
        pool_size=POOL_KEPT,
        max_overflow=POOL_OVERFLOW,
        pool_timeout=WAIT_S,
        pool_pre_ping=True,
        connect_args={"connect_timeout": WAIT_S},
    )
    try:
        async with AsyncExitStack() as loans:
            kept = [await loans.enter_async_context(engine.connect()) for _ in range(POOL_KEPT)]
            if not await kept[0].scalar(statements.FINDS_SCHEMA):
                raise NotMigratedError
        yield async_sessionmaker(engine)
    finally:
        await engine.dispose()
