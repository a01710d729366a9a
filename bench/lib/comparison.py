"""Compares a benchmark's sides: they take turns, and their results must agree.

A side that fails is left out and named, but where Forebay itself fails, the program ends.
"""

import itertools
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from lib.machine import machine

T = TypeVar("T")


class Side:
    """One of the ways to do a benchmark's work that are compared."""

    # The largest differences from the reference's results, by which a side still does the same
    # work. Each benchmark says what it measures them in.
    differences_max: tuple[float, ...] = ()

    def turn(self) -> Any:
        """Does a round's work; returns what it took, as the benchmark counts it."""
        raise NotImplementedError

    def end(self) -> None:
        """Gives back what the side holds."""

    def check(self, *differences: float) -> None:
        """Compares the differences from the reference's results with their bounds.

        Raises:
            DisagreementError: One is above its bound, or is no number.
        """
        within = zip(differences, self.differences_max, strict=True)
        if not all(difference <= bound for difference, bound in within):
            shown = ", ".join(f"{difference:.3f}" for difference in differences)
            raise DisagreementError(
                f"the results differ by {shown}, but may by {self.differences_max} at most"
            )


class DisagreementError(RuntimeError):
    """A side's results are not those of the reference."""


class Comparison:
    """The sides that are still compared, and why others are not.

    Args:
        program: The benchmark's name, for messages.
        names: The names of the sides, in the order of their turns.
        needed: The sides without which there is nothing to compare.
        to: Where messages go; None: standard output.
    """

    def __init__(
        self,
        program: str,
        names: Iterable[str],
        needed: Iterable[str] = ("forebay",),
        to: Any = None,
    ) -> None:
        self.program = program
        self.names = list(names)
        self.needed = frozenset(needed)
        self.sides: dict[str, Side] = {}
        self.missing: dict[str, str] = {}
        self._to = to

    def leave_out(self, name: str, why: object) -> None:
        """Leaves a side out and says why; the program ends where the side is needed."""
        print(f"NOT COMPARED: {name}: {why}", file=self._to, flush=True)
        if name in self.needed:
            sys.exit(f"bench {self.program}: without {name} there is nothing to compare")
        self.names.remove(name)
        self.missing[name] = str(why)
        if (side := self.sides.pop(name, None)) is not None:
            side.end()

    def each(self, work: Callable[[str], T]) -> dict[str, T]:
        """What `work` returns for each side that is still compared; the others are left out."""
        made: dict[str, T] = {}
        for name in list(self.names):
            try:
                made[name] = work(name)
            except Exception as error:  # noqa: BLE001 - a peer may fail in any way
                self.leave_out(name, error)
        return made

    def open(self, make: Callable[[str], Side]) -> None:
        """Makes the sides; those that cannot be made are left out."""

        def add(name: str) -> None:
            self.sides[name] = make(name)

        self.each(add)

    def rounds(
        self,
        count: int,
        is_enough: Callable[[], bool] = lambda: False,
        *,
        together: bool = False,
    ) -> dict[str, list[Any]]:
        """Lets the sides take their turns, one side after another in each round.

        Args:
            count: Rounds at most.
            is_enough: Whether no further round is needed; asked after each one.
            together: Whether the turns of a round are at the same time instead, in threads.

        Returns:
            What each side's turns returned, of the sides that did not fail.
        """
        taken: dict[str, list[Any]] = {name: [] for name in self.names}
        for _ in range(count):
            round_taken = self._together() if together else self.each(self._turn)
            for name, one in round_taken.items():
                taken[name].append(one)
            if is_enough():
                break
        return {name: taken[name] for name in self.names}

    def _turn(self, name: str) -> Any:
        return self.sides[name].turn()

    def _together(self) -> dict[str, Any]:
        with ThreadPoolExecutor(len(self.names)) as pool:
            turns = {name: pool.submit(self._turn, name) for name in self.names}
            return self.each(lambda name: turns[name].result())

    def end(self) -> None:
        """Ends all sides."""
        for side in self.sides.values():
            side.end()
        self.sides.clear()


def show_table(
    title: str, columns: Mapping[str, str], rows: Mapping[str, Sequence[Any]], *, width: int = 18
) -> None:
    """Prints a table for people, with a row for each side.

    Args:
        title: Stands over the names of the rows.
        columns: Format specifications that begin with the column's width, by the columns' titles.
        rows: The values of each row, by its name.
        width: The width of the first column, in characters.
    """
    titles = "".join(
        f"{name:>{''.join(itertools.takewhile(str.isdigit, form))}}"
        for name, form in columns.items()
    )
    print(f"{title:{width}}{titles}")
    for name, values in rows.items():
        shown = "".join(
            format(value, form) for value, form in zip(values, columns.values(), strict=False)
        )
        print(f"{name:{width}}{shown}", flush=True)


def report(result: Mapping[str, Any]) -> None:
    """Prints the benchmark's figures for programs: one JSON object, with the machine's name."""
    print(json.dumps({"machine": machine(), **result}, default=str), flush=True)
