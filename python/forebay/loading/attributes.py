"""The attributes of a Loader that have DataLoader's names."""

from collections.abc import Mapping
from typing import Any

from forebay.loading.options import Options


class LoaderAttributes:
    """The attributes of a Loader that DataLoader has too; none can be changed afterwards."""

    def _show(self, options: Options, arguments: Mapping[str, Any]) -> None:
        """Sets the attributes to the checked values."""
        self.dataset, self.batch_size = options.dataset, options.batch_size
        self.shuffle, self.timeout = options.shuffle, options.timeout
        self.sampler, self.batch_sampler = options.sampler, options.batch_sampler
        self.drop_last, self.even_batches = options.drop_last, options.even_batches
        self.num_workers, self.prefetch_factor = options.num_workers, options.prefetch_factor
        self.pin_memory, self.device, self.seed = options.pin_memory, options.device, options.seed
        self.generator, self.collate_fn = arguments["generator"], arguments["collate_fn"]
        self.batch_transform = arguments["batch_transform"]
        # These have no effect.
        self.worker_init_fn = arguments["worker_init_fn"]
        self.persistent_workers = arguments["persistent_workers"]
        self.multiprocessing_context = arguments["multiprocessing_context"]
        self.pin_memory_device = arguments["pin_memory_device"]
        self.in_order = arguments["in_order"]
        self._fixed = frozenset(arguments)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self.__dict__.get("_fixed", ()):
            raise ValueError(
                f"Loader: {name} cannot be changed once the Loader is made; make another Loader"
            )
        super().__setattr__(name, value)
