"""Statistics over all exchanges of a process, which follow each other."""

from collections.abc import Sequence
from typing import Any

# Counters, which are added up. Other figures are those of the present exchange.
_COUNTED = ("steps", "waited_s", "reduced_bytes", "reducing_s")
_COUNTED_OF_LINKS = ("sent_bytes", "received_bytes", "refused")


class Totals:
    """The counts of all exchanges before the present one."""

    def __init__(self) -> None:
        self._before: dict[str, Any] | None = None

    def add(self, stats: dict[str, Any]) -> None:
        """Adds the final statistics of an exchange."""
        self._before = self.with_present(stats)

    @property
    def steps(self) -> int:
        """How many steps all exchanges before the present one have made."""
        return 0 if self._before is None else int(self._before["steps"])

    def keep(self, ranks: Sequence[int]) -> None:
        """From now on, only these processes are counted; their ranks are their places here."""
        if self._before is not None:
            self._before["links"] = [self._before["links"][rank] for rank in ranks]

    def with_present(self, stats: dict[str, Any]) -> dict[str, Any]:
        """The present exchange's statistics, with the counts of former exchanges added."""
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
