"""Counts by powers of two of microseconds, the histogram of the wire form.

Bucket `i` counts values in [2^i, 2^(i+1)) µs, bucket 0 those below 2 µs: small to send, and the
difference of two of them is exact.
"""

BUCKETS = 40
"""Up to 2^40 µs, almost 13 days."""


class Histogram:
    """Counts of durations."""

    __slots__ = ("log2_us",)

    def __init__(self) -> None:
        self.log2_us = [0] * BUCKETS

    def record(self, ns: int) -> None:
        bucket = (ns // 1_000 | 1).bit_length() - 1
        self.log2_us[bucket if bucket < BUCKETS else BUCKETS - 1] += 1

    def count(self) -> int:
        return sum(self.log2_us)

    def trimmed(self) -> list[int]:
        """Give the counts without the zeros at the end."""
        length = BUCKETS
        while length > 0 and self.log2_us[length - 1] == 0:
            length -= 1
        return self.log2_us[:length]
