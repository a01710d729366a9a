"""What a Loader's epochs consist of: their samples, their lengths, and the feeds for them."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forebay import _core
from forebay.loading import states
from forebay.loading.options import Options
from forebay.loading.position import Position, beginning
from forebay.loading.samplers import EpochSamples, Repeats, Sampler, Weights, make_epoch_sampler
from forebay.ranks import own_world


class EpochSource:
    """Chooses epochs' samples and opens feeds for them. One thread at a time, except for select().

    Args:
        options: The Loader's.
        core_options: From feed_options(); the world and the chosen samples are set here.
    """

    def __init__(self, options: Options, core_options: _core.FeedOptions) -> None:
        self._dataset = options.dataset
        self._options = options
        self._core_options = core_options
        self.rank, self.world_size = options.world
        self.epoch_sampler = make_epoch_sampler(options, self.global_batch)
        self._samples = len(self._dataset) if options.draws is None else options.draws
        self._set_world(options.world)

    @property
    def global_batch(self) -> int:
        """Samples of a batch over all ranks; 1 if a batch_sampler chooses."""
        return (self._options.batch_size or 1) * self.world_size

    def __len__(self) -> int:
        """Batches of an epoch; TypeError if a sampler does not say how many it gives."""
        samples = self._samples if self.epoch_sampler is None else len(self.epoch_sampler)
        if self._options.batch_sampler is not None:
            return samples
        return -(-self._end(samples) // self.global_batch)

    def _end(self, samples: int) -> int:
        """The position after the last sample that is used."""
        batch = self.global_batch
        return samples // batch * batch if self._options.drop_last else samples

    def is_empty(self, selected: EpochSamples | None) -> bool:
        """Whether an epoch of these samples (None: of all) has no batches."""
        return self._end(self._samples if selected is None else selected.count) == 0

    def is_over(self, state: Mapping[str, Any]) -> bool:
        """Whether a state is its epoch's end; an epoch without batches has none."""
        end = self._end(state.get("samples", self._samples))
        return not state.get("more") and 0 < end <= state["position"]

    def identity(self) -> dict[str, Any]:
        """Returns the fields in which a state must agree with this Loader."""
        order = "shuffled" if self._options.shuffle else "stored"
        if self.epoch_sampler is not None:
            names = {Sampler: "sampler", Repeats: f"repeats {self._options.repeats}"}
            order = names.get(type(self.epoch_sampler), "weights")
        return {
            "version": states.VERSION,
            "seed": self._options.seed,
            "order": order,
            "dataset": self._dataset.fingerprint,
        }

    def checked(self, state: Any) -> dict[str, Any]:
        """Checks a state from outside.

        Raises:
            ValueError: The state does not fit these epochs; the message says why.
        """
        state = states.checked(state, self.identity())
        samples, position = state.get("samples", self._samples), state["position"]
        # If ranks get equal numbers, an epoch ends some positions after its last sample.
        if self.epoch_sampler is None and position >= samples + _core.WORLD_SIZE_MAX:
            raise ValueError(
                f"load_state_dict: the state's position is {position}, after the end of an epoch "
                f"({samples})"
            )
        batch = self.global_batch
        if position < self._end(samples) and position % batch != 0:
            raise ValueError(
                f"load_state_dict: the state's position is {position}, but must be a multiple of "
                f"batch_size x world_size, which is {batch}; give both as they were"
            )
        self._check_over(state.get(states.OVER, []))
        return state

    def _check_over(self, over: list[list[int]]) -> None:
        """Checks the batches of a state that came before their turn."""
        batch, end = self.global_batch, self._end(self._samples)
        if over and self.epoch_sampler is not None:
            raise ValueError(
                "load_state_dict: the state says that batches came before their turn, which is "
                "impossible if a sampler, weights or repeats choose the samples"
            )
        for one in over:
            if one[0] % batch or (one[1] % batch and one[1] != end) or one[1] > end:
                raise ValueError(
                    f"load_state_dict: positions {one[0]} to {one[1]}, which came before their "
                    f"turn, are not whole batches of {batch} in an epoch of {end}; give batch_size "
                    "x world_size and drop_last as they were"
                )

    def follow_world(self) -> bool:
        """Takes the rank that torch.distributed has now; returns whether it is another one."""
        world = self._options.asked_world or own_world()
        if world == (self.rank, self.world_size):
            return False
        self._set_world(world)
        return True

    def _set_world(self, world: tuple[int, int]) -> None:
        self.rank, self.world_size = world
        self._core_options.rank, self._core_options.world_size = world
        self._core_options.global_batch = self.global_batch
        self._core_options.set_order(self._order())

    def _order(self) -> _core.Shuffled | _core.Stored | _core.Weighted:
        """Returns the core's order; the lists of a sampler come later, one at a time."""
        if isinstance(self.epoch_sampler, Weights):
            return self.epoch_sampler.order(self._end(self._samples))
        return _core.Shuffled() if self._options.shuffle else _core.Stored()

    def forget(self) -> None:
        """Ignores an epoch that was set on the sampler, because one was set on the loader later."""
        if self.epoch_sampler is not None:
            self.epoch_sampler.forget()

    def select(self, place: Position) -> tuple[dict[str, Any], EpochSamples | None]:
        """The state at which the next epoch begins, and its samples; None: each sample once.

        Runs the user's sampler.

        Raises:
            ValueError: The samples are not those that the epoch had when the state was made; or the
                sampler gives something that is not a sample's number.
            IndexError: The sampler gives a number that the dataset does not have.
        """
        begun = place.next()
        # Lightning calls iter() only to see whether it works; that must not cost an epoch.
        kept = None if place.is_taken else place.selected
        if self.epoch_sampler is None or (kept is not None and not self.epoch_sampler.is_set()):
            return begun, kept
        count = begun["samples"] if begun.get("more") else None
        epoch, selected = self.epoch_sampler.select(begun["epoch"], begun.get("before", 0), count)
        if epoch != begun["epoch"]:  # the user has set another epoch on the sampler
            begun = beginning(epoch, begun["bad"])
        if "sampled" in begun and begun["sampled"] != selected.digest:
            raise ValueError(
                f"sampler: it does not give the samples of epoch {epoch} that it gave when the "
                "state was made; give it the same seed, and set_epoch() if its order is to "
                "depend on the epoch"
                if isinstance(self.epoch_sampler, Sampler)
                else f"the samples of epoch {epoch} are not those that were drawn when the state "
                "was made; give the dataset the same weights, and the same samples_per_epoch (if "
                "an earlier version of Forebay made the state, it drew other samples: begin an "
                "epoch anew by set_epoch())"
            )
        return begun, selected

    def listed(self, selected: EpochSamples | None) -> _core.SampleList | None:
        """The chosen samples for the core, without those that are dropped at an epoch's end.

        Returns:
            None: the core knows the samples.
        """
        return None if selected is None else selected.listed(self._end(selected.count))

    def order(self, epoch: int) -> NDArray[np.int64]:
        """The numbers of this rank's samples in an epoch, unless a sampler of the user chooses."""
        if isinstance(self.epoch_sampler, Repeats):
            every = self.epoch_sampler.numbers(epoch)
            every = every[np.arange(self._positions()) % max(1, len(every))]
        else:
            drawn = _core.samples_of_epoch(self._dataset.core, self._core_options, epoch)
            every = drawn.astype(np.int64)
        return every[self.rank :: self.world_size]

    def samples_each(self) -> int:
        """How many samples of an epoch the ranks with the most samples get."""
        return -(-self._positions() // self.world_size)

    def _positions(self) -> int:
        """How many samples all ranks get, with those that come again to make the ranks even."""
        end, world = self._end(self._samples), self.world_size
        is_evened = self._options.even_batches and not self._options.drop_last
        return -(-end // world) * world if is_evened else end

    def open(self) -> _core.Feed:
        """An idle feed, for any of the epochs."""
        prep = self._options.prep
        return _core.Feed(
            self._dataset.core, self._core_options, None if prep is None else prep.core
        )
