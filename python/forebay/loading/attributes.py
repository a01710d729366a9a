"""The attributes of a Loader that have DataLoader's names, and what it is in a line."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from forebay.data.sources import without_secrets
from forebay.loading.epoch_order import epoch_batches, epoch_sampler, refuse_collation
from forebay.loading.options import Options
from forebay.transforms.user_functions import name_of

if TYPE_CHECKING:
    from forebay.loading.loader import Loader

# What to do instead of setting an attribute that no argument has; also for attributes of other
# loaders, which code that was written for these sets.
_INSTEAD = {
    "epoch": "call set_epoch(epoch)",
    "bad_samples": "load_state_dict() restores them",
    "mixup_enabled": "make another Loader without batch_transform",  # timm's
}


class LoaderAttributes:
    """The attributes of a Loader that DataLoader has too; none can be changed afterwards."""

    def _show(self, options: Options, arguments: Mapping[str, Any]) -> None:
        """Sets the attributes to the checked values."""
        self.dataset, self.batch_size = options.dataset, options.batch_size
        self.shuffle, self.timeout = options.shuffle, options.timeout
        self._given_samplers = options.sampler, options.batch_sampler
        self.drop_last, self.even_batches = options.drop_last, options.even_batches
        self.num_workers, self.prefetch_factor = options.num_workers, options.prefetch_factor
        self.pin_memory, self.device, self.seed = options.pin_memory, options.device, options.seed
        self.generator = arguments["generator"]
        self.collate_fn = arguments["collate_fn"] or refuse_collation
        self.batch_transform = arguments["batch_transform"]
        # These have no effect.
        self.worker_init_fn = arguments["worker_init_fn"]
        self.persistent_workers = arguments["persistent_workers"]
        self.multiprocessing_context = arguments["multiprocessing_context"]
        self.pin_memory_device = arguments["pin_memory_device"]
        self.in_order = arguments["in_order"]
        self._transform_text = _transform_text(arguments["transform"])
        self._fixed = frozenset(arguments) | set(_INSTEAD)

    @property
    def sampler(self: "Loader") -> Any:  # type: ignore[misc]
        """The sampler that was given, or an object that shows the Loader's own order.

        It gives the numbers of this rank's samples in the running epoch, or else in the next one;
        it has a length and a set_epoch(). None: a batch_sampler was given.
        """
        given, batches = self._given_samplers
        return (
            given
            if given is not None or batches is not None
            else epoch_sampler(self, self._own_source)
        )

    @property
    def batch_sampler(self: "Loader") -> Any:  # type: ignore[misc]
        """The batch_sampler that was given, or an object that shows the Loader's own batches.

        It gives the numbers of the samples of each of this rank's batches, as lists.
        """
        batches = self._given_samplers[1]
        return epoch_batches(self, self._own_source) if batches is None else batches

    def __repr__(self: "Loader") -> str:  # type: ignore[misc]
        dataset = self.dataset
        try:
            batches = f"{len(self)} batches"
        except TypeError:  # the sampler has no length
            batches = "batches"
        facts = [
            f"{len(dataset)} samples, {len(dataset.classes)} classes",
            batches if self.batch_size is None else f"{batches} of {self.batch_size}",
            "shuffled" if self.shuffle else "",
            *(f"{name} given" for name, one in self._samplers() if one is not None),
            "drop_last" if self.drop_last else "",
            f"transform {self._transform_text}",
            f"rank {self.rank} of {self.world_size}" if self.world_size > 1 else "",
            f"on {self.device}" if self.device is not None else "",
            f"{self.num_workers} threads",
            f"epoch {self.epoch}",
        ]
        path = without_secrets(dataset.path)
        return f"forebay.Loader({path!r}): {', '.join(filter(None, facts))}"

    def _samplers(self) -> list[tuple[str, Any]]:
        return list(zip(("sampler", "batch_sampler"), self._given_samplers, strict=True))

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self.__dict__.get("_fixed", ()):
            instead = _INSTEAD.get(name, "make another Loader")
            raise ValueError(f"Loader: {name} cannot be changed once the Loader is made; {instead}")
        super().__setattr__(name, value)


def _transform_text(transform: Any) -> str:
    """The names of the transforms."""
    if isinstance(transform, Sequence):
        return f"[{', '.join(map(name_of, transform))}]"
    return "None" if transform is None else name_of(transform)
