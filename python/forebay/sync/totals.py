"""Statistics of exchanges that follow each other, as one."""

from typing import Any

# Counters; of all other figures the present exchange's hold.
_COUNTED = ("steps", "waited_s", "reduced_bytes", "reducing_s")
_COUNTED_OF_LINKS = ("sent_bytes", "received_bytes", "refused")


class Totals:
    """What was counted before the present exchange."""

    def __init__(self) -> None:
        self._before: dict[str, Any] | None = None

    def add(self, stats: dict[str, Any]) -> None:
        """An exchange has ended with these."""
        self._before = self.with_present(stats)

    def with_present(self, stats: dict[str, Any]) -> dict[str, Any]:
        """The present exchange's statistics with the counts of those before it."""
        before, found = self._before, dict(stats)
        if before is None:
            return found
        found |= {name: found[name] + before[name] for name in _COUNTED}
        found["trouble"] = found["trouble"] or before["trouble"]
        found["staleness"] = [
            a + b for a, b in zip(found["staleness"], before["staleness"], strict=True)
        ]
        found["links"] = [
            {**link, **{name: link[name] + old[name] for name in _COUNTED_OF_LINKS}}
            for link, old in zip(found["links"], before["links"], strict=True)
        ]
        return found
