"""Puts the application together: everything but the stores, which differ between the versions."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TypedDict

from fastapi import FastAPI
from unstall import LoopMonitor

from reference_fastapi import refusals
from reference_fastapi.request_id import RequestIds
from reference_fastapi.routes import (
    accounts,
    conversations,
    github,
    health,
    runs,
    sessions,
    sharing,
    tunnel,
    usage,
)
from reference_fastapi.settings import Settings
from reference_fastapi.stores import OpenStores, Stores


class _State(TypedDict):
    stores: Stores


def create_app(open_stores: OpenStores) -> FastAPI:
    """Make an application on one version of the stores."""
    # Routes that exist with a trailing slash say so; the others don't redirect to their sibling.
    app = FastAPI(
        title="Reference service", lifespan=_lifespan(open_stores), redirect_slashes=False
    )
    for routes in (health, conversations, runs, sessions, sharing, accounts, usage, tunnel, github):
        app.include_router(routes.router)
    refusals.install(app)
    app.add_middleware(RequestIds)
    # Outermost, so that it times everything else; on in both versions.
    app.add_middleware(LoopMonitor)
    return app


def _lifespan(
    open_stores: OpenStores,
) -> Callable[[FastAPI], AbstractAsyncContextManager[_State]]:
    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[_State]:
        # Whoever waits for the port to open waits for warm pools.
        async with open_stores(Settings.from_environment()) as stores:
            yield {"stores": stores}

    return lifespan
