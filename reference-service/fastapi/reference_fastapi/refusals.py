"""Answers to failures: `{"detail": …}`, with the reason in the log and not with the caller."""

import logging

import redis
from fastapi import FastAPI, Request, status
from fastapi.responses import JSONResponse
from sqlalchemy import exc

from reference_fastapi import request_id
from reference_fastapi.conversation import ProjectsMissingError
from reference_fastapi.sharing import NobodyHadAccessError, NotFoundError
from reference_fastapi.workspaces import MalformedValueError

_LOG = logging.getLogger(__name__)


def install(app: FastAPI) -> None:
    """Say what each kind of failure is answered with."""
    for kind, handler in _HANDLERS.items():
        app.add_exception_handler(kind, handler)


async def _postgres_unavailable(_request: Request, error: Exception) -> JSONResponse:
    return _unavailable("PostgreSQL", error)


async def _redis_unavailable(_request: Request, error: Exception) -> JSONResponse:
    return _unavailable("Redis", error)


def _unavailable(backend: str, error: Exception) -> JSONResponse:
    _LOG.warning("store unavailable: %s", error)
    detail = f"{backend} can't be reached; try again"
    return JSONResponse({"detail": detail}, status.HTTP_503_SERVICE_UNAVAILABLE)


async def _failed(_request: Request, error: Exception) -> JSONResponse:
    _LOG.error("store failed: %s", error)
    detail = "Internal server error"
    return JSONResponse({"detail": detail}, status.HTTP_500_INTERNAL_SERVER_ERROR)


async def _bug(request: Request, _error: Exception) -> JSONResponse:
    # The server logs it with its traceback.
    return JSONResponse(
        {"detail": "Internal server error"},
        status.HTTP_500_INTERNAL_SERVER_ERROR,
        {request_id.NAME: request.state.request_id},
    )


async def _missing(_request: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"detail": str(error)}, status.HTTP_404_NOT_FOUND)


async def _refused(_request: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"detail": str(error)}, status.HTTP_400_BAD_REQUEST)


# The closest class of an exception's ancestors decides.
_HANDLERS = {
    exc.OperationalError: _postgres_unavailable,
    exc.InterfaceError: _postgres_unavailable,
    exc.TimeoutError: _postgres_unavailable,
    exc.SQLAlchemyError: _failed,
    redis.ConnectionError: _redis_unavailable,
    redis.TimeoutError: _redis_unavailable,
    redis.RedisError: _failed,
    MalformedValueError: _failed,
    ProjectsMissingError: _missing,
    NotFoundError: _missing,
    NobodyHadAccessError: _refused,
    Exception: _bug,
}
