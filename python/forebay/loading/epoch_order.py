"""The order of a Loader's samples, in the form of PyTorch's samplers, for code that asks for these.

Lightning, Accelerate, timm and training scripts ask a loader for its `sampler` and `batch_sampler`:
how many samples there are, which, and for set_epoch(). Nothing here decides what the Loader gives.
"""

import itertools
from collections.abc import Callable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any, NoReturn

from forebay.pytorch import load_torch

if TYPE_CHECKING:
    from forebay.loading.epoch_source import EpochSource
    from forebay.loading.loader import Loader


class _Order:
    """What both kinds of samplers have. No attribute can be set.

    Args:
        loader: The Loader.
        source: Returns its source of epochs, with the rank that this process has now.
    """

    _loader: "Loader"
    _source: Callable[[], "EpochSource"]

    def __init__(self, loader: "Loader", source: Callable[[], "EpochSource"]) -> None:
        self.__dict__.update(_loader=loader, _source=source)

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise AttributeError(
            f"{name} of a Loader's sampler cannot be set, because the Loader would not follow it; "
            "make another Loader"
        )


class EpochSampler(_Order):
    """The numbers of the samples that this rank gets in the running epoch, or else in the next one.

    Bad samples, and what replaces them, are not known in advance.
    """

    @property
    def data_source(self) -> Any:
        """The Loader's dataset."""
        return self._loader.dataset

    def __iter__(self) -> Iterator[int]:
        return iter(self._source().order(self._loader.epoch).tolist())

    def __len__(self) -> int:
        """How many samples the ranks with the most samples get, the same on every rank."""
        return self._source().samples_each()

    def set_epoch(self, epoch: int) -> None:
        """The same as Loader.set_epoch()."""
        self._loader.set_epoch(epoch)


class EpochBatches(_Order):
    """The numbers of the samples of each of this rank's batches, as lists."""

    @property
    def sampler(self) -> Any:
        """The Loader's sampler."""
        return self._loader.sampler

    @property
    def batch_size(self) -> int | None:
        """Samples of a batch."""
        return self._loader.batch_size

    @property
    def drop_last(self) -> bool:
        """Whether an incomplete last batch is left out."""
        return self._loader.drop_last

    def __iter__(self) -> Iterator[list[int]]:
        numbers, size = iter(self.sampler), self.batch_size
        if isinstance(self.sampler, EpochSampler):  # a rank's last batch may be empty
            return (list(itertools.islice(numbers, size)) for _ in range(len(self)))
        batches = iter(lambda: [int(one) for one in itertools.islice(numbers, size)], [])
        return (batch for batch in batches if len(batch) == size or not self.drop_last)

    def __len__(self) -> int:
        return len(self._loader)


def epoch_sampler(loader: "Loader", source: Callable[[], "EpochSource"]) -> EpochSampler:
    """The Loader's sampler; with PyTorch, a SequentialSampler or another Sampler of PyTorch."""
    torch = load_torch()
    if torch is None:
        return EpochSampler(loader, source)
    samplers = torch.utils.data
    kind = samplers.Sampler if loader.shuffle else samplers.SequentialSampler
    return _with_base(EpochSampler, kind)(loader, source)


def epoch_batches(loader: "Loader", source: Callable[[], "EpochSource"]) -> EpochBatches:
    """The Loader's batch_sampler; with PyTorch, a BatchSampler of PyTorch."""
    torch = load_torch()
    if torch is None:
        return EpochBatches(loader, source)
    return _with_base(EpochBatches, torch.utils.data.BatchSampler)(loader, source)


@cache
def _with_base(own: type[Any], theirs: type[Any]) -> type[Any]:
    return type(own.__name__, (own, theirs), {"__module__": own.__module__})


def refuse_collation(samples: Any) -> NoReturn:
    """The `collate_fn` of a Loader without one: for a DataLoader that is made of its attributes.

    Such a DataLoader (accelerate.skip_first_batches makes one) reads the Loader's dataset, and
    knows nothing of its transform and fields.

    Raises:
        TypeError: Always.
    """
    raise TypeError(
        "forebay.Loader: a DataLoader with this Loader's dataset would give whole images without "
        "the Loader's transform. To begin in the middle of an epoch, give the Loader a position by "
        "load_state_dict() (docs/resuming.md)"
    )
