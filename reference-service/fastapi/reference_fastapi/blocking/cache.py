"""Redis before: synchronous clients."""

from redis import Redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from reference_fastapi.settings import WAIT_S


def client(url: str) -> Redis:
    """Make a client that connects as it is first used."""
    return Redis.from_url(
        url,
        decode_responses=True,
        # The newer one has a greeting, a round trip more per connection than the original makes.
        protocol=2,
        socket_timeout=WAIT_S,
        socket_connect_timeout=WAIT_S,
        # Once more, for a connection that the server closed meanwhile.
        retry=Retry(NoBackoff(), 1),
    )
