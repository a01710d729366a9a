"""Runs a tool that bench/explore.py compares with, in a process of its own.

usage: python -m lib.explore_tool optuna TASK WORKER
       python -m lib.explore_tool ray TASK
"""

import sys

from lib.explore_trials import read_task


def main() -> None:
    """Runs the tool that the command line names."""
    task = read_task(sys.argv[2])
    if sys.argv[1] == "optuna":
        from lib.explore_optuna import optimize

        optimize(task, int(sys.argv[3]))
    else:
        from lib.explore_ray import fit

        fit(task)


if __name__ == "__main__":
    main()
