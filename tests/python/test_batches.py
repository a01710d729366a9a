"""What batches consist of: fields, files, images of their own sizes, users' functions."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import forebay
from conftest import pack
from forebay import transforms as T
from forebay.loading.epoch import Epoch
from forebay.loading.position import EpochPosition, beginning
from forebay.loading.prefetch import Deadline, End, Prefetcher, Ready
from forebay.transforms.mixing import CutMix, MixUp, mix


def test_fields_are_what_was_asked_for(packed: Path):
    dataset = forebay.Dataset(packed)
    loader = forebay.Loader(
        dataset, 8, True, transform=T.train(24), drop_last=True,
        fields=("index", "key", "label", "image", "file"),
    )  # fmt: skip
    plain = forebay.Loader(dataset, 8, True, transform=T.train(24), drop_last=True)
    for batch, (images, labels) in zip(loader, plain, strict=True):
        assert isinstance(batch, tuple)
        index, keys, own_labels, own_images, files = batch
        assert torch.equal(own_images, images) and torch.equal(own_labels, labels)
        assert index.dtype == own_labels.dtype == torch.int64
        assert keys == [dataset.key(i) for i in index.tolist()]
        assert files == [dataset.read(i) for i in index.tolist()]


def test_a_mapping_gives_dicts(packed: Path):
    loader = forebay.Loader(
        packed, 8, transform=T.evaluate(24, 32), fields={"pixel_values": "image", "y": "label"}
    )
    for batch in loader:
        assert list(batch) == ["pixel_values", "y"]
        assert batch["pixel_values"].shape[1:] == (3, 24, 24)
        assert batch["pixel_values"].shape[0] == batch["y"].shape[0]


def test_without_images_nothing_is_decoded(images: dict[str, bytes], tmp_path: Path):
    from conftest import pack

    some = dict(list(images.items())[:6])
    loader = forebay.Loader(pack(some, tmp_path), 4, fields=("file", "label"))
    files = [file for batch, _ in loader for file in batch]
    assert [np.asarray(forebay.decode(f)).shape for f in files] == [
        pixels.shape for pixels, _ in loader.dataset
    ]
    assert loader.stats()["samples"] == 6


def test_images_as_they_are(packed: Path, folder: Path):
    for path in (packed, folder):
        dataset = forebay.Dataset(path)
        for channels_last in (False, True):
            loader = forebay.Loader(dataset, 8, channels_last=channels_last)
            whole = [image for images, _ in loader for image in images]
            assert len(whole) == len(dataset)
            for image, (pixels, _) in zip(whole, dataset, strict=True):
                own = image if channels_last else image.permute(1, 2, 0)
                assert np.array_equal(own.numpy(), pixels)
    with pytest.raises(ValueError, match="Normalize"):
        forebay.Loader(dataset, 8, dtype="float32")


def test_collate_gets_a_list_of_samples(packed: Path):
    def collate(samples: list[Any]) -> tuple[int, list[int]]:
        assert all(isinstance(sample, tuple) for sample in samples)
        return max(image.shape[2] for image, _ in samples), [int(label) for _, label in samples]

    loader = forebay.Loader(packed, 32, collate_fn=collate)
    made = list(loader)
    assert [len(labels) for _, labels in made] == [32, 32, 6]
    assert max(width for width, _ in made) == loader.dataset.column("width").max()


def test_functions_run_on_each_image_and_on_the_batch(packed: Path):
    threads = set()

    def shift(image: torch.Tensor) -> torch.Tensor:
        threads.add(threading.current_thread())
        assert image.shape == (3, 24, 24) and image.dtype == torch.float32
        return image + 1

    def half(batch: Any) -> Any:
        return batch[0] / 2, batch[1]

    plain = forebay.Loader(packed, 16, True, transform=T.train(24))
    loader = forebay.Loader(
        packed, 16, True, transform=[*T.train(24), shift, shift], batch_transform=half
    )
    for (images, labels), (own, own_labels) in zip(plain, loader, strict=True):
        assert torch.equal(own, (images + 1 + 1) / 2) and torch.equal(own_labels, labels)
    assert threading.main_thread() not in threads
    # The function crops whole images to one size.
    crops = forebay.Loader(packed, 16, transform=[lambda image: image[:, :40, :40]])
    for images, _ in crops:
        assert images.shape[1:] == (3, 40, 40) and images.dtype == torch.uint8
    with pytest.raises(ValueError, match="of one size, or give a collate_fn"):
        next(iter(forebay.Loader(packed, 16, transform=[lambda image: image])))


def test_a_batch_of_bad_samples_alone(images: dict[str, bytes], tmp_path: Path):
    files = {**images, **{f"class0/{i:03}.jpg": b"no image" for i in (0, 3)}}
    pack(files, tmp_path)
    dataset = forebay.Dataset(tmp_path / "images").subset(range(4))

    def crop(image: torch.Tensor) -> torch.Tensor:
        return image[:, :32, :32].float()

    def stack(samples: list[Any]) -> dict[str, torch.Tensor]:
        return {"x": torch.stack([image for image, _ in samples])}

    with pytest.warns(UserWarning, match="cannot be used"):
        mixed = list(
            forebay.Loader(dataset, 2, transform=crop, batch_transform=MixUp(num_classes=3))
        )
        assert [labels.shape for _, labels in mixed] == [(0, 3), (2, 3)]
        collated = list(
            forebay.Loader(
                dataset, 2, transform=crop, collate_fn=stack, batch_transform=lambda b: b["x"]
            )
        )
    assert len(collated[0][1]) == 0 and collated[1].shape == (2, 3, 32, 32)


def test_a_field_that_is_named_twice_is_mixed_once(packed: Path):
    fields = ["label", "image", "label"]
    loader = forebay.Loader(
        packed, 8, fields=fields, transform=T.train(16), batch_transform=MixUp(num_classes=3)
    )
    first, _, second = next(iter(loader))
    assert first.shape == (8, 3) and torch.equal(first, second)


@pytest.mark.parametrize("mixing", [MixUp(num_classes=3), CutMix(num_classes=3)])
def test_mixing_is_of_the_batch(packed: Path, mixing: Any):
    options: dict[str, Any] = {"transform": T.train(24), "seed": 4, "drop_last": True}
    plain = forebay.Loader(packed, 16, True, **options)
    mixed = forebay.Loader(
        packed, 16, True, batch_transform=mixing, fields={"x": "image", "y": "label"}, **options
    )
    for epoch in range(2):
        for step, ((images, labels), batch) in enumerate(zip(plain, mixed, strict=True)):
            own, soft = mix(mixing, images, labels, seed=4, epoch=epoch, step=step)
            assert torch.equal(batch["x"], own) and torch.equal(batch["y"], soft)
            assert torch.allclose(soft.sum(1), torch.ones(16))
    with pytest.raises(ValueError, match="mixes images and labels"):
        forebay.Loader(packed, 16, fields=["image"], batch_transform=mixing, **options)


def test_a_state_is_of_what_was_given_not_of_what_is_ahead(packed: Path):
    def make() -> forebay.Loader:
        return forebay.Loader(
            packed, 8, True, transform=[*T.train(16), torch.neg], drop_last=True, prefetch_factor=4
        )

    loader = make()
    assert loader.state_dict()["position"] == 0
    expected = [images for images, _ in loader]
    for taken in range(len(loader) + 1):
        loader.set_epoch(0)
        given = iter(loader)
        for _ in range(taken):
            next(given)
        state = loader.state_dict()
        assert state["position"] == 8 * taken
        again = make()
        again.load_state_dict(state)
        assert again.epoch == loader.epoch == (taken == len(loader))
        if taken < len(loader):
            assert torch.equal(next(iter(again))[0], expected[taken])
        else:
            assert next(iter(again)) and again.state_dict()["epoch"] == 1


def test_a_function_is_not_begun_for_images_that_nobody_waits_for(
    packed: Path, monkeypatch: pytest.MonkeyPatch
):
    images = torch.cat([each for each, _ in forebay.Loader(packed, 16, transform=T.CenterCrop(8))])
    numbers = {image.numpy().tobytes(): i for i, image in enumerate(images)}
    begun: list[int] = []
    reached, go_on = threading.Event(), threading.Event()

    def slow(image: torch.Tensor) -> torch.Tensor:
        begun.append(numbers[image.numpy().tobytes()])
        if begun[-1] == 16:  # this is the second batch's first image
            reached.set()
            go_on.wait(60)
        return image

    def shutdown(pool: ThreadPoolExecutor, **options: Any) -> None:
        go_on.set()
        ended(pool, **options)

    ended = ThreadPoolExecutor.shutdown
    monkeypatch.setattr(ThreadPoolExecutor, "shutdown", shutdown)
    loader = forebay.Loader(packed, 16, transform=[T.CenterCrop(8), slow], prefetch_factor=2)
    given = iter(loader)
    next(given)
    assert reached.wait(60)
    given.close()  # type: ignore[attr-defined]  # break and Ctrl-C do the same
    assert go_on.is_set() and not set(range(17, 32)) & set(begun)


def test_the_loop_waits_for_its_own_batch_and_the_next():
    pulled: list[int] = []
    ready: list[Ready] = []

    def pull(_: Deadline) -> Ready:
        if not ready:
            pulled.append(len(pulled))
            ready.append(Ready(pulled[-1], EpochPosition.at(beginning(0), None)))
        return ready[0]

    def drop(_: EpochPosition) -> None:
        ready.clear()

    batches = Prefetcher(pull, drop, lambda: False, lambda ready, _: ready.batch, 8)
    for number in range(3):
        for _ in range(2):  # the same one until it is dropped
            made = batches.next(Deadline(0))
            assert isinstance(made, Ready) and made.batch == number
            assert len(pulled) == number + 2
        batches.drop(made.epoch_position)
    batches.close()


def test_what_is_ahead_does_not_exceed_the_memory(packed: Path):
    def count(**options: Any) -> int:
        held: deque[Any] = deque(maxlen=2)
        loader = forebay.Loader(packed, 8, transform=T.train(64), **options)
        for batch in loader:
            held.append(batch)
        return len(loader)

    memory = 400_000
    while True:
        try:
            assert count(memory_bytes_max=memory) == 9
            break
        except MemoryError:
            memory += 50_000
    assert count(memory_bytes_max=memory, batch_transform=lambda batch: batch) == 9


def test_sizes_are_numbers_that_pytorch_counts_with(packed: Path):
    (widths,) = next(iter(forebay.Loader(packed, 8, fields=["width"])))
    assert widths.dtype == torch.int64 and widths.max() > 0


def test_a_function_without_return_is_told(packed: Path):
    with pytest.raises(TypeError, match="returned None"):
        next(iter(forebay.Loader(packed, 4, transform=[T.CenterCrop(8), lambda image: None])))
    # A single transform need not be in a list.
    (images, _), *_ = forebay.Loader(packed, 4, transform=T.CenterCrop(8))
    assert images.shape == (4, 3, 8, 8)


def test_what_a_function_raises_comes_at_its_batch(packed: Path):
    calls = iter(range(1000))

    def fails(image: torch.Tensor) -> torch.Tensor:
        if next(calls) == 20:
            raise KeyError("mine")
        return image

    loader = forebay.Loader(
        packed, 8, transform=[*T.evaluate(16, 16), fails], num_workers=1, prefetch_factor=1
    )
    given = iter(loader)
    assert len(next(given)[0]) == len(next(given)[0]) == 8
    with pytest.raises(KeyError, match="mine"):
        next(given)
    before = threading.active_count()
    for _ in loader:  # the next epoch
        break
    assert threading.active_count() <= before + 1


def test_wrong_fields_are_told(packed: Path):
    for fields, message in (
        ("image", "sequence or a mapping"),
        (("image", "mask"), "there is no 'mask'"),
        ((), "empty"),
    ):
        with pytest.raises(ValueError, match=message):
            forebay.Loader(packed, 4, fields=fields, transform=T.train(16))
    with pytest.raises(ValueError, match="functions of images"):
        forebay.Loader(packed, 4, fields=["label"], transform=[torch.neg])


def test_a_loader_that_is_closed_goes_on_where_it_was(packed: Path):
    def tasks() -> set[str]:
        return set(os.listdir("/proc/self/task"))

    expected = [labels for _, labels in forebay.Loader(packed, 8, True, transform=T.train(16))]
    before = tasks()
    with forebay.Loader(packed, 8, True, transform=T.train(16)) as loader:
        given = iter(loader)
        first = [next(given)[1] for _ in range(3)]
        assert tasks() - before
    deadline = time.monotonic() + 60
    while tasks() - before:  # a joined thread may stay listed for a moment
        assert time.monotonic() < deadline
        time.sleep(0.01)
    with pytest.raises(RuntimeError, match="close"):
        next(given)
    rest = [labels for _, labels in loader]
    assert torch.equal(torch.cat([*first, *rest]), torch.cat(expected))
    loader.close()  # at the end of an epoch: the next one follows
    assert len(list(loader)) == 9 and loader.state_dict()["epoch"] == 1


def test_ctrl_c_ends_a_wait(packed: Path):
    """The batch is so large that the core needs half a minute for it."""
    program = f"""
import os, signal, forebay
signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs ignore SIGINT
from forebay import transforms as T
many = forebay.Dataset({str(packed)!r}).subset(list(range(70)) * 4000)
loader = forebay.Loader(many, 2**18, transform=T.train(16), num_workers=1)
try:
    print("waiting", flush=True)
    next(iter(loader))
except KeyboardInterrupt:
    print("interrupted", flush=True)
    os._exit(3)
"""
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert process.stdout and process.stdout.readline() == "waiting\n"
    try:
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "interrupted\n"
        assert process.wait() == 3
    finally:
        process.kill()


def test_batches_without_samples_have_their_kind(images: dict[str, bytes], tmp_path: Path):
    """A rank without samples and a batch whose only sample is bad give empty batches."""
    from conftest import pack

    good = list(images.values())[0]
    path = pack({"a/0.jpg": good, "a/1.jpg": good}, tmp_path)
    (tmp_path / "images/a/1.jpg").write_bytes(good[:100])
    collate = torch.utils.data.default_collate
    for options in ({"collate_fn": collate}, {"transform": [*T.evaluate(24), lambda image: image]}):
        selected: dict[str, Any] = {"transform": T.evaluate(24), **options}
        empty_rank = forebay.Loader(path, 1, rank=2, world_size=3, **selected)
        bad = forebay.Loader(tmp_path / "images", 1, **selected)
        with pytest.warns(UserWarning, match="cannot be used"):
            batches = [*empty_rank, *bad]
        assert [len(labels) for _, labels in batches] == [0, 1, 0]
        for pixels, labels in batches:
            assert pixels.shape == (len(labels), 3, 24, 24) and pixels.dtype == torch.float32
            assert labels.dtype == torch.int64


@pytest.mark.parametrize("prefetch_factor", [1, 2])
def test_the_next_batches_are_made_while_the_loop_has_one(
    packed: Path, prefetch_factor: int, monkeypatch: pytest.MonkeyPatch
):
    pulled: list[Ready | End] = []
    enough = threading.Event()
    made = threading.Semaphore(0)

    def pull(epoch: Epoch, *rest: Any) -> Ready | End:
        pulled.append(own(epoch, *rest))
        if len(pulled) == 1 + prefetch_factor:
            enough.set()
        return pulled[-1]

    def transform(batch: Any) -> Any:
        if 0 in batch[0]:  # meanwhile the loop looks for further batches
            assert enough.wait(60)
        made.release()
        return batch

    own = Epoch._pull
    monkeypatch.setattr(Epoch, "_pull", pull)
    loader = forebay.Loader(
        packed, 8, fields=["index"], batch_transform=transform, prefetch_factor=prefetch_factor
    )
    batches = iter(loader)
    next(batches)
    for _ in range(1 + prefetch_factor):
        assert made.acquire(timeout=60)
    assert not made.acquire(timeout=0.2)
