"""Tests forebay.Loader: its pixels against PyTorch's, order, resuming, ranks and bad samples."""

import copy
import io
import json
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import forebay
from conftest import pack
from forebay import transforms as T

TRAIN = [T.RandomResizedCrop(32), T.RandomHorizontalFlip()]  # uint8
Batches = list[tuple[torch.Tensor, torch.Tensor]]


def make(packed: Path, **options: Any) -> forebay.Loader:
    defaults: dict[str, Any] = {"transform": TRAIN, "shuffle": True, "seed": 5, "num_workers": 2}
    return forebay.Loader(packed, options.pop("batch_size", 8), **{**defaults, **options})


def equal(a: Batches, b: Batches) -> bool:
    return len(a) == len(b) and all(
        torch.equal(x, y)
        for one, two in zip(a, b, strict=True)
        for x, y in zip(one, two, strict=True)
    )


def by_torch(file: bytes, resize: int, size: int) -> torch.Tensor:
    """Applies Resize, CenterCrop, ToTensor and Normalize like torchvision v2 does to uint8."""
    pixels = torch.from_numpy(np.array(Image.open(io.BytesIO(file)).convert("RGB")))
    height, width = pixels.shape[:2]
    short = min(width, height)
    resized = [int(resize * height / short), int(resize * width / short)]
    image = torch.nn.functional.interpolate(
        pixels.permute(2, 0, 1)[None], resized, mode="bilinear", antialias=True
    )[0]
    top, left = (round((side - size) / 2) for side in resized)
    image = image[:, top : top + size, left : left + size].double() / 255
    mean, std = (torch.tensor(v).double()[:, None, None] for v in (T.IMAGENET_MEAN, T.IMAGENET_STD))
    return ((image - mean) / std).float()


@pytest.mark.parametrize("where", ["packed", "folder"])
def test_evaluation_equals_pytorch(where: str, images: dict[str, bytes], request):
    path = request.getfixturevalue(where)
    loader = make(path, shuffle=False, transform=T.evaluate(size=48, resize=56))
    dataset = loader.dataset
    assert len(loader) == -(-len(dataset) // 8)
    batches = list(loader)
    assert [len(labels) for _, labels in batches] == [8] * 8 + [6]
    got, labels = (torch.cat(parts) for parts in zip(*batches, strict=True))
    assert labels.dtype == torch.int64
    assert np.array_equal(labels, dataset.targets)
    for i, key in enumerate(dataset.keys()):
        expected = by_torch(images[f"{key}.jpg"], 56, 48)
        torch.testing.assert_close(got[i], expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("dtype", ["uint8", "float32", "bfloat16", "float16"])
@pytest.mark.parametrize("channels_last", [False, True])
def test_types_and_layouts_hold_the_same(packed: Path, dtype: str, channels_last: bool):
    plain = [T.RandomCrop(32, padding=4), T.RandomHorizontalFlip()]
    normalize = [] if dtype == "uint8" else [T.Normalize()]
    expected = list(make(packed, transform=plain))
    got = list(make(packed, transform=plain + normalize, dtype=dtype, channels_last=channels_last))
    mean, std = (torch.tensor(v)[:, None, None] for v in (T.IMAGENET_MEAN, T.IMAGENET_STD))
    for (pixels, labels), (images, others) in zip(expected, got, strict=True):
        assert images.dtype == getattr(torch, dtype)
        assert torch.equal(labels, others)
        images = images.permute(0, 3, 1, 2) if channels_last else images
        if dtype == "uint8":
            assert torch.equal(images, pixels)
        else:
            difference = (images.float() - (pixels / 255 - mean) / std).abs().max()
            assert difference < {"float32": 1e-5, "float16": 0.002, "bfloat16": 0.02}[dtype]


@pytest.mark.parametrize("where", ["packed", "folder"])
def test_an_epoch_has_every_sample_once_in_an_order_of_its_own(where: str, request):
    path = request.getfixturevalue(where)
    loader = make(path)
    orders = [torch.cat([labels for _, labels in loader]).tolist() for _ in range(3)]
    for order in orders:
        assert np.bincount(order).tolist() == np.bincount(loader.dataset.targets).tolist()
    assert len({tuple(order) for order in orders}) == 3
    loader.set_epoch(1)
    assert torch.cat([labels for _, labels in loader]).tolist() == orders[1]
    assert len(list(make(path, drop_last=True))) == len(loader) - 1 == 8


def test_threads_change_nothing(packed: Path):
    assert equal(list(make(packed, num_workers=1)), list(make(packed, num_workers=5)))


@pytest.mark.parametrize("where", ["packed", "folder"])
def test_goes_on_from_any_batch(where: str, request):
    packed = request.getfixturevalue(where)
    whole = make(packed)
    expected = list(whole) + list(whole)
    steps = len(whole)
    for done in range(2 * steps + 1):
        first = make(packed)
        got: Batches = []
        while len(got) < done:
            for batch in first:
                got.append(batch)
                if len(got) == done:
                    break
        state = json.loads(json.dumps(first.state_dict()))
        second = make(packed)
        second.load_state_dict(state)
        assert second.state_dict()["position"] in (state["position"], 0)
        while len(got) < len(expected):
            got += list(second)
        assert equal(got[: len(expected)], expected), done


def test_goes_on_with_another_number_of_ranks(packed: Path):
    alone = make(packed, batch_size=12, drop_last=True)
    expected = list(alone)
    first = make(packed, batch_size=12, drop_last=True)
    iterator = iter(first)
    for _ in range(2):
        next(iterator)
    ranks = [
        make(packed, batch_size=4, drop_last=True, rank=rank, world_size=3) for rank in range(3)
    ]
    shares = []
    for rank in ranks:
        rank.load_state_dict(first.state_dict())
        shares.append(list(rank))
    for step, parts in enumerate(zip(*shares, strict=True), 2):
        for wanted, got in zip(expected[step], zip(*parts, strict=True), strict=True):
            assert torch.equal(wanted, torch.stack(got, 1).flatten(0, 1))


def test_ranks_have_as_many_batches_and_share_all_samples(packed: Path):
    ranks = [make(packed, shuffle=False, rank=rank, world_size=3) for rank in range(3)]
    shares = [list(rank) for rank in ranks]
    assert [len(share) for share in shares] == [len(ranks[0])] * 3
    labels = torch.cat([labels for share in shares for _, labels in share])
    assert labels.bincount().tolist() == np.bincount(ranks[0].dataset.targets).tolist()


def test_the_environment_says_which_rank_this_is(packed: Path, monkeypatch):
    expected = list(make(packed, rank=1, world_size=3))
    for name, value in {"RANK": "1", "WORLD_SIZE": "3", "LOCAL_WORLD_SIZE": "3"}.items():
        monkeypatch.setenv(name, value)
    loader = make(packed, num_workers=None)
    assert (loader.rank, loader.world_size) == (1, 3)
    assert equal(list(loader), expected)


def test_processes_of_torchrun_share_an_epoch(packed: Path, tmp_path: Path):
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent(
            f"""
            import forebay, torch
            from forebay import transforms as T
            torch.distributed.init_process_group("gloo")
            loader = forebay.Loader({str(packed)!r}, 5, shuffle=True, seed=5, drop_last=True,
                                    transform=[T.RandomResizedCrop(32)])
            for images, labels in loader:
                all_labels = [torch.empty_like(labels) for _ in range(2)]
                torch.distributed.all_gather(all_labels, labels)
                if loader.rank == 0:
                    print(torch.stack(all_labels, 1).flatten().tolist())
            torch.distributed.destroy_process_group()
            """
        )
    )
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    done = subprocess.run([*command, str(program)], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    alone = make(packed, batch_size=10, drop_last=True, transform=[T.RandomResizedCrop(32)])
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        labels.tolist() for _, labels in alone
    ]


def test_a_state_of_something_else_is_refused(packed: Path):
    loader = make(packed)
    state = loader.state_dict()
    for changed in ({"epoch": 1.5}, {"position": 10**6}, {"bad": None}, {"epoch": "a"}):
        with pytest.raises(ValueError, match="load_state_dict: the state's"):
            loader.load_state_dict({**state, **changed})
    for epoch in (1.5, -1, 2**70, None):
        with pytest.raises(ValueError, match="set_epoch: epoch is"):
            loader.set_epoch(epoch)  # type: ignore[arg-type]
    loader.set_epoch(np.int64(3))
    next(iter(loader))
    assert loader.state_dict()["epoch"] == 3
    loader = make(packed)
    with pytest.raises(ValueError, match="seed is 5"):
        make(packed, seed=6).load_state_dict(loader.state_dict())
    with pytest.raises(ValueError, match="order is 'shuffled'"):
        make(packed, shuffle=False).load_state_dict(loader.state_dict())
    with pytest.raises(ValueError, match="position.* is missing"):
        loader.load_state_dict({"epoch": 3})


def test_batches_keep_their_memory(packed: Path):
    kept, copies = [], []
    for images, _ in make(packed, batch_size=2):
        kept.append(images)
        copies.append(images.clone())
    assert all(torch.equal(a, b) for a, b in zip(kept, copies, strict=True))


def test_a_newer_iterator_ends_the_older(packed: Path):
    loader = make(packed)
    old = iter(loader)
    next(old)
    new = iter(loader)
    with pytest.raises(RuntimeError, match="ended by a newer"):
        next(old)
    assert len(list(new)) == len(loader)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "batch_size is 0"),
        ({"batch_size": 2**40}, "batch_size is 1099511627776"),
        ({"num_workers": -1}, "num_workers is -1"),
        ({"num_workers": 10**6}, "num_workers is 1000000"),
        ({"seed": -1}, "seed is -1"),
        ({"shuffle": "yes"}, "shuffle is 'yes'"),
        ({"timeout": -1}, "timeout is -1"),
        ({"seed": None, "generator": 3}, "generator is 3"),
        ({"even_batches": 1}, "even_batches is 1"),
        ({"batch_sampler": 3, "batch_size": 1, "shuffle": False}, "batch_sampler is 3"),
        ({"batch_sampler": [[0]], "batch_size": 8}, "leave out batch_size"),
        ({"batch_sampler": [[0]], "batch_size": 1, "shuffle": True}, "leave out batch_size"),
        ({"prefetch_factor": 0}, "prefetch_factor is 0"),
        ({"dtype": "float64"}, "dtype is 'float64'"),
        ({"dtype": "float32"}, "float32, which needs a transform with Normalize"),
        ({"rank": 2, "world_size": 2}, "rank is 2"),
        ({"world_size": 2}, "rank is None, world_size is 2: give both"),
        ({"rank": 1}, "rank is 1, world_size is None: give both"),
        ({"shuffle": 1}, "shuffle is 1"),
        ({"batch_size": "8"}, "batch_size is '8'"),
        ({"memory_bytes_max": 1.5}, "memory_bytes_max is 1.5"),
        ({"regions": "always"}, "regions is 'always', but must be 'auto' or 'never'"),
        ({"transform": [T.Resize]}, "Resize is a class; call it"),
        ({"transform": "train"}, "transform is 'train'"),
        ({"collate_fn": "x"}, "collate_fn is 'x'"),
        ({"batch_transform": T.MixUp}, "batch_transform is .*MixUp"),
        ({"fields": None}, "fields is None"),
        ({"transform": [T.Normalize(), T.CenterCrop(8)]}, "in this order"),
        ({"transform": [T.RandomResizedCrop(8, scale=(0.5, 0.1))]}, "scales 0.5 to 0.1"),
        ({"transform": [T.RandomResizedCrop(8, interpolation="area")]}, "'area'"),
        ({"transform": [T.RandomResizedCrop(8), T.RandomHorizontalFlip(1.3)]}, "p is 1.3"),
    ],
)
def test_options_that_make_no_sense_are_named(packed: Path, options: dict, message: str):
    with pytest.raises(ValueError, match=message):
        make(packed, **options)


@pytest.fixture
def damaged(images: dict[str, bytes], tmp_path: Path) -> Path:
    """Makes a dataset whose sample 3 does not match its checksum."""
    path = pack(dict(list(images.items())[:16]), tmp_path)
    file = forebay.Dataset(path).read(3)
    (chunk,) = (path / "chunks").iterdir()
    content = bytearray(chunk.read_bytes())
    content[content.index(file) + len(file) // 2] ^= 1
    chunk.chmod(0o644)
    chunk.write_bytes(content)
    return path


def test_a_bad_sample_is_replaced_or_left_out_and_named(damaged: Path):
    key = forebay.Dataset(damaged).key(3)
    for shuffle, sizes in ((True, [8, 8]), (False, [7, 8])):
        loader = make(damaged, shuffle=shuffle)
        with pytest.warns(UserWarning, match=f"{key} cannot be used: .*checksum"):
            batches = list(loader)
        assert [len(labels) for _, labels in batches] == sizes
        assert [bad["sample"] for bad in loader.bad_samples] == [3]
        again = make(damaged, shuffle=shuffle)
        again.load_state_dict(loader.state_dict())
        assert again.bad_samples == loader.bad_samples
    with pytest.raises(forebay.DataError, match="bad_samples_max is 0"):
        list(make(damaged, bad_samples_max=0))


def test_a_bad_sample_is_remembered_where_the_loop_leaves(damaged: Path):
    loader = forebay.Loader(damaged, 70, True, transform=T.train(16))
    with pytest.warns(UserWarning, match="cannot be used") as caught:
        for _ in range(3):
            for _ in loader:
                break
            assert len(loader.bad_samples) == 1
    assert len(caught) == 1
    state = loader.state_dict()
    state["bad"].clear()
    assert len(loader.bad_samples) == 1


def test_a_folders_bad_file_is_replaced_and_named(images: dict[str, bytes], tmp_path: Path):
    files = dict(list(images.items())[:16])
    files["class1/004.jpg"] = files["class1/004.jpg"][:500]
    files["class0/empty.png"] = b""
    pack(files, tmp_path)
    loader = make(tmp_path / "images")
    with pytest.warns(UserWarning, match="class1/004 cannot be used") as told:
        batches = list(loader)
    assert {one.filename for one in told} == {__file__}  # the loop's line
    assert [len(labels) for _, labels in batches] == [8, 8, 1]
    assert sorted(bad["key"] for bad in loader.bad_samples) == ["class0/empty", "class1/004"]
    later = make(tmp_path / "images")
    (tmp_path / "images/class2/002.jpg").unlink()
    with pytest.raises(FileNotFoundError, match=r"class2/002\.jpg"):
        list(later)
    os.mkdir(tmp_path / "nothing")
    with pytest.raises(ValueError, match="no images"):
        make(tmp_path / "nothing")


@pytest.mark.filterwarnings("error:forebay")
def test_a_warning_that_is_an_error_loses_no_batch(images: dict[str, bytes], tmp_path: Path):
    pack({**images, "class0/009.jpg": images["class0/009.jpg"][:300]}, tmp_path)
    loader = make(tmp_path / "images", shuffle=False)
    given: list[torch.Tensor] = []
    with pytest.raises(UserWarning, match="class0/009 cannot be used"):
        for pixels, _ in loader:
            given.append(pixels)
    assert loader.state_dict()["position"] == sum(map(len, given))
    loader.load_state_dict(loader.state_dict())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        given += [pixels for pixels, _ in loader]
    assert len(torch.cat(given)) == len(images) - 1


def test_a_state_at_another_batch_size(packed: Path):
    loader = forebay.Loader(packed, 8, fields=["index"])
    given = iter(loader)
    next(given)
    larger = forebay.Loader(packed, 16, drop_last=True, fields=["index"])
    with pytest.raises(ValueError, match="a multiple of batch_size x world_size, which is 16"):
        larger.load_state_dict(loader.state_dict())
    assert len(list(given)) > 0
    larger.load_state_dict(loader.state_dict())  # a state at an epoch's end fits any batch size
    assert larger.epoch == 1


def run_python(code: str, packed: Path) -> subprocess.CompletedProcess[str]:
    start = f"import forebay, sys\nfrom forebay import transforms as T\npath = {str(packed)!r}\n"
    return subprocess.run(
        [sys.executable, "-c", start + textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_a_forked_child_goes_on_by_itself(packed: Path):
    loader = make(packed)
    iterator = iter(loader)
    next(iterator)
    loader_state = loader.state_dict()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        with pytest.raises(RuntimeError, match="by a fork"):
            next(iterator)
        loader.load_state_dict(loader_state)
        labels = [labels.tolist() for _, labels in loader]
        os.write(writing, json.dumps(labels).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as file:
        of_child = json.load(file)
    assert os.waitpid(child, 0)[1] == 0
    assert of_child == [labels.tolist() for _, labels in iterator]


def labels_of(loader: forebay.Loader) -> list[list[int]]:
    return [labels.tolist() for _, labels in loader]


def test_a_spawned_process_begins_the_epoch_of_its_copy(packed: Path):
    loader = make(packed)
    expected = [labels.tolist() for _, labels in loader]
    loader.set_epoch(0)
    next(iter(loader))
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(labels_of, (loader,)) == expected


def test_a_copy_begins_the_epoch_that_is_not_over(packed: Path):
    loader = make(packed)
    first, second = list(loader), list(loader)
    for taken, expected in ((1, first), (len(first), second)):
        loader.set_epoch(0)
        given = iter(loader)
        for _ in range(taken):
            next(given)
        for copied in (pickle.loads(pickle.dumps(loader)), copy.deepcopy(loader)):
            assert len(list(copied)) == len(expected)
            copied.set_epoch(copied.epoch - 1)
            assert torch.equal(next(iter(copied))[0], expected[0][0])
    state = loader.state_dict()
    copied = copy.copy(loader)
    copied.load_state_dict(state)  # only a state carries a position
    assert copied.state_dict()["epoch"] == 1


def test_a_forked_child_that_does_not_use_it_ends(packed: Path):
    done = run_python(
        """
        import os
        loader = forebay.Loader(path, 4, transform=T.train(32))
        iterator = iter(loader)
        images, labels = next(iterator)
        child = os.fork()
        if child != 0:
            assert os.waitpid(child, 0)[1] == 0
            assert len(list(iterator)) == len(loader) - 1
        """,
        packed,
    )
    assert done.returncode == 0, done.stderr


def test_leaves_in_the_middle_of_an_epoch(packed: Path):
    for transform in ("T.train(32)", "[*T.train(32), lambda image: image]"):
        code = f"next(iter(forebay.Loader(path, 4, transform={transform})))"
        done = run_python(code, packed)
        assert done.returncode == 0, done.stderr
        assert not done.stderr


def test_ctrl_c_ends_an_epoch(packed: Path):
    code = f"""
        import signal
        import forebay
        from forebay import transforms as T
        # This program ignores SIGINT if it is a background job, so it sets the usual handler.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        loader = forebay.Loader({str(packed)!r}, 4, transform=T.train(224))
        print("ready", flush=True)
        while True:
            for images, labels in loader: pass
        """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as run:
        assert run.stdout and run.stderr
        assert run.stdout.readline() == "ready\n"
        run.send_signal(signal.SIGINT)
        assert run.wait(30) in (-signal.SIGINT, 130)
        assert "KeyboardInterrupt" in run.stderr.read()


def test_the_last_epochs_end(packed: Path):
    loader = forebay.Loader(packed, 16, True, fields=["index"])
    for epoch in (2**32 - 2, 2**32 - 1):
        loader.set_epoch(epoch)
        assert sum(len(numbers) for (numbers,) in loader) == len(loader.dataset)
    with pytest.raises(ValueError, match="set_epoch: epoch is 4294967296"):
        loader.set_epoch(2**32)


def test_a_loop_that_sets_each_epoch_resumes(packed: Path):
    def make() -> forebay.Loader:
        return forebay.Loader(packed, 8, True, fields=["index"])

    loader, resumed = make(), make()
    loader.set_epoch(3)
    batches = iter(loader)
    for _ in range(4):
        next(batches)
    resumed.load_state_dict(loader.state_dict())
    rest = [numbers.tolist() for (numbers,) in batches]
    resumed.set_epoch(3)
    assert [numbers.tolist() for (numbers,) in resumed] == rest
    resumed.set_epoch(3)  # the whole epoch comes once more
    assert len(list(resumed)) == len(loader)
    resumed.load_state_dict(loader.state_dict())
    resumed.set_epoch(4)
    assert len(list(resumed)) == len(loader)


def test_an_epoch_whose_first_batch_failed_begins_again(packed: Path):
    calls = []

    def collate(samples: list[Any]) -> list[int]:
        calls.append(len(samples))
        if len(calls) == 1:
            raise KeyError("once")
        return [int(number) for (number,) in samples]

    loader = forebay.Loader(
        packed, 8, True, fields=["index"], collate_fn=collate, prefetch_factor=1
    )
    with pytest.raises(KeyError):
        list(loader)
    assert loader.epoch == 0
    batches = list(loader)
    expected = [
        numbers.tolist() for (numbers,) in forebay.Loader(packed, 8, True, fields=["index"])
    ]
    assert batches == expected and loader.epoch == 1


@pytest.mark.parametrize(
    "damage",
    [{"samples": "x"}, {"samples": None}, {"samples": -1}, {"bad": [1]}, {"bad": [{}]}, {"bad": 0},
     {"bad": [{"sample": 1, "chunk": "a", "key": None, "reason": "b"}]}],
)  # fmt: skip
def test_states_that_are_damaged(packed: Path, damage: dict[str, Any]):
    loader = forebay.Loader(packed, 8, True, fields=["index"])
    with pytest.raises(ValueError, match=f"load_state_dict: the state's {next(iter(damage))}"):
        loader.load_state_dict({**loader.state_dict(), **damage})
    loader.load_state_dict({**loader.state_dict(), "epoch": np.int64(0), "position": np.int64(0)})
    assert len(list(loader)) == len(loader)


def test_what_the_loop_lets_go_of_goes(packed: Path):
    import gc
    import weakref

    for options in ({}, {"batch_transform": lambda batch: batch}, {"prefetch_factor": 1}):
        loader = forebay.Loader(packed, 8, transform=T.train(24), **options)  # type: ignore[arg-type]
        images = None
        for images, _ in loader:
            gone = weakref.ref(images)
            del images
            gc.collect()
            assert gone() is None


def test_a_rank_beyond_the_environments_world(packed: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("RANK", "5")
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with pytest.raises(ValueError, match="RANK is 5, but must be below its WORLD_SIZE, 1"):
        forebay.Loader(packed)


@pytest.mark.parametrize("value", ["", "0", "two"])
def test_an_invalid_number_of_processes_here(
    packed: Path, monkeypatch: pytest.MonkeyPatch, value: str
):
    monkeypatch.setenv("LOCAL_WORLD_SIZE", value)
    with pytest.raises(ValueError, match=f"LOCAL_WORLD_SIZE is '{value}', but must be a whole"):
        forebay.Loader(packed)


def test_a_global_batch_that_is_too_large(packed: Path):
    with pytest.raises(ValueError, match="batch_size x world_size is"):
        forebay.Loader(packed, 2**20, rank=0, world_size=2**16)
