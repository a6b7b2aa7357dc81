"""`GET /health`: touches no store, so it tells that the loop turns."""

from fastapi import APIRouter

router = APIRouter()


@router.get("/health")
async def health() -> dict[str, str]:
    """Say so."""
    return {"status": "ok"}
