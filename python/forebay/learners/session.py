"""What `attach` returns: the API for training loops."""

import math
import warnings
from dataclasses import asdict, dataclass
from typing import Any

import torch

from forebay._core import Averaging
from forebay.learners.choice import Choice, choose, make
from forebay.learners.execution import Execution, LossOf, Origin, Task, not_finite
from forebay.learners.layout import Layout
from forebay.learners.threads import Threads

_SEEDS = 2**62


@dataclass(frozen=True)
class Options:
    """How many learners there are, and how they are averaged; see `attach`."""

    learners: int
    averaging: str
    averaging_steps: int
    averaging_rate: float
    momentum: float


class Learners:
    """Trains a model by several learners; see `attach`, which makes it."""

    def __init__(
        self,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        layout: Layout,
        options: Options,
        execution: str | None,
    ) -> None:
        self._model, self._optimizer, self._layout = model, optimizer, layout
        self._options, self._wanted = options, execution
        self._tasks: list[Task] = []  # of the learners that have a batch
        self._loss = math.nan
        self._steps = 0
        self._choice: Choice | None = None
        self._execution: Any = None
        self._averaging: Any = None
        self._written = self._versions()
        self._has_warned = False
        self._failure = ""  # what ended an update in the middle
        self._origin: Any = None
        if options.learners > 1:
            seeds = torch.randint(_SEEDS, (options.learners,)).tolist()
            self._origin = Origin(
                model, optimizer, layout, options.learners, seeds, torch.get_num_threads(),
                options.averaging == "sgd",
            )  # fmt: skip

    def step(self, loss_of: LossOf, *batch: Any) -> float:
        """Gives the next learner its batch; when all have theirs, all of them learn.

        Args:
            loss_of: Called as ``loss_of(model, *batch)``, with a learner as the model, perhaps in
                another thread; returns the loss, a tensor of one number.
            batch: What loss_of gets, such as images and labels. Batches may differ in size. They
                must stay as they are until the learners have learned from them.

        Returns:
            The mean loss of the learners in the last complete step; nan before the first one.

        Raises:
            ValueError: A learner's loss or gradient is not finite; the message names it. The step
                is not made, and its batches are dropped.
            RuntimeError: The model has changed since `attach` or the last `finish`; or
                execution="fused" is impossible, in the first step; or an optimizer has raised
                before.
            Exception: What loss_of raises, with its traceback, after which no weights have changed;
                or what an optimizer raises, after which only a checkpoint helps.
        """
        if self._options.learners == 1:
            return self._step_alone(Task(loss_of, batch))
        self._tasks.append(Task(loss_of, batch))
        if len(self._tasks) == self._options.learners:
            self._learn()
        return self._loss

    def _step_alone(self, task: Task) -> float:
        self._optimizer.zero_grad(set_to_none=True)
        loss = task.loss(self._model)
        number = loss.item()
        if not math.isfinite(number):
            raise not_finite(0, 1, "the loss")
        loss.backward()
        self._optimizer.step()
        self._loss = number
        self._steps += 1
        return number

    def _learn(self) -> None:
        """Makes a step with the batches that are there."""
        tasks, self._tasks = self._tasks, []
        self._check_unbroken()
        self._check_unchanged()
        if self._execution is None:
            self._begin(choose(self._origin, tasks, self._wanted))
        losses = self._execution.compute(tasks)
        try:
            self._update([task.samples for task in tasks])
        except BaseException as error:
            self._failure = f"{type(error).__name__}: {error}"
            raise
        # PyTorch's schedulers warn if this optimizer seems to have made no steps.
        self._optimizer._opt_called = True  # type: ignore[attr-defined]
        self._loss = sum(losses) / len(losses)
        self._steps += 1

    def _update(self, samples: list[int]) -> None:
        """Updates and averages the learners, of which the first have so many samples each."""
        rates = [float(group["lr"]) for group in self._optimizer.param_groups]
        self._averaging.begin_step(max(rates))
        learners = self._options.learners
        self._averaging.before_update([*samples, *[0] * (learners - len(samples))])
        # Under "sgd" all learners make the same step, also those without a batch.
        self._execution.update(learners if self._options.averaging == "sgd" else len(samples))
        self._averaging.after_update()

    def _begin(self, choice: Choice) -> None:
        options = self._options
        execution: Execution = make(self._origin, choice.name)
        self._averaging = Averaging(
            options.averaging, options.learners, options.averaging_steps, options.averaging_rate,
            options.momentum, execution.weights.numpy(), execution.gradients.numpy(),
        )  # fmt: skip
        self._execution, self._choice = execution, choice
        self._failure = ""

    def finish(self) -> None:
        """Writes the central model into the model that was given to `attach`.

        Call it after the last batch, and before each validation or checkpoint. If some learners
        have batches, these learn from them first, while the others rest for this step (with "sgd",
        all make the same step as ever), so that every batch counts once. The model's
        floating-point buffers, such as a batch norm's statistics, become the mean of the
        learners', and other buffers those of the first learner. Learning goes on afterwards as if
        there had been no call, apart from such a shorter step.

        Raises:
            ValueError: The central model is not finite.
            Exception: What `step` raises.
        """
        if self._tasks:
            self._learn()
        if self._execution is not None:
            self._check_unbroken()
            self._check_unchanged()
            self._put_model()
            self._warn_of_attributes()

    @torch.no_grad()
    def _put_model(self) -> None:
        """Writes the central model and the mean of the buffers into the user's model."""
        central = torch.empty(self._layout.count)
        self._averaging.settle()
        self._averaging.read("central", central.numpy())
        if not central.sum().isfinite():
            raise ValueError(
                "learners: the central model is not finite; lower the learning rate, and continue "
                "from the last checkpoint"
            )
        parts = self._layout.of_row(central)
        for parameter, part in zip(self._layout.parameters(self._model), parts, strict=True):
            parameter.copy_(part)
        own = dict(self._model.named_buffers())
        for name, each in self._execution.buffers().items():
            is_mean = each[0].is_floating_point()
            own[name].copy_(torch.stack(each).mean(0) if is_mean else each[0])
        self._written = self._versions()

    def _versions(self) -> list[tuple[int, int, bool]]:
        """What changes when somebody writes into, moves or freezes the model's parameters."""
        return [(p._version, p.data_ptr(), p.requires_grad) for p in self._model.parameters()]

    def _check_unbroken(self) -> None:
        if self._failure:
            raise RuntimeError(
                "learners: a step ended in the middle of the optimizers' updates, so the learners "
                f"do not fit each other any more; load a checkpoint ({self._failure})"
            )

    def _check_unchanged(self) -> None:
        if self._versions() != self._written:
            raise RuntimeError(
                "learners: the model's parameters were changed, moved or frozen since attach() or "
                "finish(), which the learners cannot take over; call attach() again afterwards, or "
                "use Learners.load_state_dict() for a checkpoint"
            )

    def _warn_of_attributes(self) -> None:
        if self._has_warned or not isinstance(self._execution, Threads):
            return
        if changed := self._execution.changed_attributes():
            self._has_warned = True
            warnings.warn(
                "learners: the model changes attributes that are no parameters or buffers "
                f"({', '.join(changed[:5])}); each learner has its own, and the model that was "
                "given to attach() keeps its values. Use register_buffer() for what it needs",
                stacklevel=3,
            )

    @property
    def stats(self) -> dict[str, Any]:
        """Figures: "steps", the complete ones; "learners"; "loss", what `step` returned last;
        "execution", "reason" (why it was chosen) and "seconds" (what one step of each execution
        took, by its name; empty if none was timed), None before the first step.
        """
        choice = self._choice
        return {
            "steps": self._steps,
            "learners": self._options.learners,
            "loss": self._loss,
            "execution": choice.name if choice else None,
            "reason": choice.reason if choice else None,
            "seconds": dict(choice.seconds) if choice else None,
        }

    def state_dict(self) -> dict[str, Any]:
        """Returns what a checkpoint needs, so that training continues with the same bits.

        It has tensors, numbers and texts only, for torch.save(). It includes the model and the
        optimizer's settings, but not the scheduler or the loader.

        Raises:
            RuntimeError: Some learners have batches that they have not learned from; call `finish`.
        """
        self._check_between_steps("state_dict")
        self._check_unbroken()
        state: dict[str, Any] = {
            "options": asdict(self._options), "steps": self._steps, "loss": self._loss,
            "settings": self._settings(),
        }  # fmt: skip
        execution = self._execution
        if execution is None:
            model = {name: own.clone() for name, own in self._model.state_dict().items()}
            return {**state, "model": model, "optimizer": self._optimizer.state_dict()}
        kept = {name: torch.empty(size) for name, size in self._averaging.sizes().items()}
        for name, floats in kept.items():
            self._averaging.read(name, floats.numpy())
        buffers = {
            name: torch.stack([own.detach() for own in each])
            for name, each in execution.buffers().items()
        }
        return {
            **state, "execution": execution.name, "names": list(self._layout.names),
            "weights": execution.weights.clone(), "buffers": buffers, "averaging": kept,
            "optimizers": _copied(execution.optimizer_states()),
            "random": [own.clone() for own in execution.random_states()],
        }  # fmt: skip

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continues from a checkpoint, with the execution that it was made with.

        Also writes the central model into the model, and the settings, such as learning rates, into
        the optimizer. Other options must be those of the checkpoint.

        Raises:
            ValueError: The checkpoint has other options, another execution than the one that was
                asked for, or parameters of another model.
            RuntimeError: Some learners have batches that they have not learned from.
        """
        self._check_between_steps("load_state_dict")
        if state["options"] != asdict(self._options):
            raise ValueError(
                f"learners: the checkpoint has the options {state['options']}, but attach() got "
                f"{asdict(self._options)}"
            )
        if "execution" in state:
            self._load_learners(state)
        else:
            self._model.load_state_dict(state["model"])
            self._optimizer.load_state_dict(_copied(state["optimizer"]))
            self._execution = None
            self._written = self._versions()
        for settings, group in zip(state["settings"], self._optimizer.param_groups, strict=True):
            group.update(_copied(settings))
        self._steps, self._loss = state["steps"], state["loss"]

    @torch.no_grad()
    def _load_learners(self, state: dict[str, Any]) -> None:
        name, weights = state["execution"], state["weights"]
        if self._wanted not in (None, name):
            raise ValueError(
                f"learners: the checkpoint was made with execution={name!r}, not {self._wanted!r}"
            )
        shape = (self._options.learners, self._layout.count)
        if state["names"] != self._layout.names or weights.shape != shape:
            raise ValueError("learners: the checkpoint is of another model")
        self._check_unchanged()
        self._begin(Choice(name, "as in the checkpoint"))
        self._execution.weights.copy_(weights)
        for buffer, each in self._execution.buffers().items():
            for own, kept in zip(each, state["buffers"][buffer], strict=True):
                own.copy_(kept)
        self._execution.load_optimizer_states(_copied(state["optimizers"]))
        self._execution.load_random_states(state["random"])
        for kept_name, floats in state["averaging"].items():
            self._averaging.write(kept_name, floats.numpy())
        self._put_model()

    def _check_between_steps(self, caller: str) -> None:
        if self._tasks:
            raise RuntimeError(
                f"learners: {caller}() in the middle of a step: {len(self._tasks)} of "
                f"{self._options.learners} learners have a batch; call finish() before it"
            )

    def _settings(self) -> list[dict[str, Any]]:
        groups = self._optimizer.param_groups
        return _copied([{k: v for k, v in g.items() if k != "params"} for g in groups])  # type: ignore[no-any-return]


def _copied(state: Any) -> Any:
    """Returns a checkpoint's dicts, lists and values, with tensors of its own."""
    if isinstance(state, torch.Tensor):
        return state.clone()
    if isinstance(state, dict):
        return {key: _copied(value) for key, value in state.items()}
    if isinstance(state, list):
        return [_copied(value) for value in state]
    return state
