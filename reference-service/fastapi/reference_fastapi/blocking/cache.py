"""Redis before: synchronous clients."""

from redis import Redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from reference_fastapi.settings import WAIT_S


def client(url: str, retries: int) -> Redis:
    """Make a client that connects as it is first used.

    One retry is for a connection that is kept and that the server closed meanwhile. A command whose
    answer is late may have been done all the same: where twice is too often, there is none.
    """
    return Redis.from_url(
        url,
        decode_responses=True,
        # The newer one has a greeting, a round trip more per connection than the original makes.
        protocol=2,
        socket_timeout=WAIT_S,
        socket_connect_timeout=WAIT_S,
        retry=Retry(NoBackoff(), retries),
    )
