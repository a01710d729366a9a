"""Calls a stage's function with known arguments, in whatever process."""

from collections.abc import Callable
from typing import Any

from forebay.explore import messages
from forebay.explore.settings import Schedule
from forebay.explore.stages import Report, Running, running


def call(
    function: Callable[..., Any],
    args: Any,
    kwargs: Any,
    one: Running,
    *,
    epoch: int | None = None,
    on_report: Callable[[int, Report], object] = lambda step, report: None,
) -> Report:
    """Calls a stage's function to its end, or for one epoch alone.

    Args:
        function: A function, or a generator function.
        args: Positional arguments.
        kwargs: Named arguments.
        one: The running stage, which knows the report to go on from.
        epoch: Ends with the report of this epoch; None: goes on to the last report.
        on_report: Called after each report with its number, from 1.

    Returns:
        The result; its metrics are those of a report, and for a plain number "value".

    Raises:
        TypeError: A generator yields something else than reports, or none.
    """
    with running(one):
        value = function(*args, **kwargs)
        if not hasattr(value, "send") or not hasattr(value, "close"):
            return _as_report(value)
        last: Report | None = None
        step = 0
        for step, reported in enumerate(value, start=1):
            if not isinstance(reported, Report):
                raise TypeError(
                    f"the stage yields {type(reported).__name__}, but must yield fx.report(…)"
                )
            last = reported
            if epoch is not None and not one.can_resume:
                raise TypeError(
                    "a stage that gets a schedule must make its epochs with "
                    "`for epoch in fx.epochs(schedule, state)`"
                )
            on_report(step, reported)
            if epoch is not None:
                value.close()
                break
            if not one.can_resume:
                one.begin_epoch(step)
        if last is None:
            raise TypeError("the stage ended without a report; yield fx.report(…) at least once")
        return last


def _as_report(value: Any) -> Report:
    if isinstance(value, Report):
        return value
    if isinstance(value, (bool, int, float)):
        return Report(value, {"value": float(value)})
    is_number = getattr(value, "shape", None) == () and hasattr(value, "item")
    return Report(value, {"value": float(value.item())} if is_number else {})


def filled(value: Any, states: dict[int, Any], epoch: int | None) -> Any:
    """Arguments with results in place of References, and schedules as the epoch may see them."""
    if isinstance(value, messages.Reference):
        return states[value.task]
    if isinstance(value, Schedule):
        return value if epoch is None else value.up_to(epoch)
    if type(value) in (list, tuple):
        return type(value)(filled(item, states, epoch) for item in value)
    if type(value) is dict:
        return {key: filled(item, states, epoch) for key, item in value.items()}
    return value
