"""BatchDecoder and decode(device=…) make the same pixels as the Loader on every device."""

import contextlib
import io
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import forebay
from forebay import _core
from forebay import transforms as T
from forebay.data import decoding as decoding_module
from forebay.loading import batch_decoding as batch_module

_PLACES = [
    "cpu",
    "the GPU's kernels run by the CPU",
    pytest.param(
        "cuda",
        marks=pytest.mark.skipif(
            not torch.cuda.is_available(),
            reason="needs a GPU that PyTorch can use: decodes and computes there",
        ),
    ),
]


@pytest.fixture(params=_PLACES)
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Returns where batches are made; the second place stands in for a GPU where there is none."""
    if request.param == "the GPU's kernels run by the CPU":
        here = torch.device("cpu")
        for module in (batch_module, decoding_module):
            monkeypatch.setattr(module, "check_device", lambda device: device)
            monkeypatch.setattr(module, "open_device", lambda _: _core.Device.open(-1))
        monkeypatch.setattr(decoding_module, "event_now", lambda _: None)
        yield here
        decoding_module._whole_images.cache_clear()
    else:
        yield request.param


def _files(packed: Path) -> list[bytes]:
    dataset = forebay.Dataset(packed)
    return [dataset.read(i) for i in range(len(dataset))]


@pytest.mark.parametrize(
    "options",
    [
        {"transform": T.train(48)},
        {"transform": T.evaluate(40), "dtype": "float16", "channels_last": True},
        {"transform": [*T.train(32), T.RandomErasing(p=0.7, value="random")], "seed": 5},
        {"transform": T.RandomResizedCrop(24)},
    ],
)
def test_its_batches_are_the_loaders(packed: Path, device: Any, options: dict[str, Any]):
    files = _files(packed)
    loader = forebay.Loader(packed, len(files), num_workers=1, **options)
    decoder = forebay.BatchDecoder(**options, device=device, threads=3)
    numbers = range(len(files))
    for epoch in range(2):
        ((expected, _),) = loader
        batch = decoder(files, drawn_for=numbers, epoch=epoch)
        assert batch.errors() == {} and batch.images.dtype == expected.dtype
        assert torch.equal(batch.images.cpu(), expected)


def test_files_may_be_arrays_and_tensors(packed: Path, device: Any):
    files: list[Any] = _files(packed)[:6]
    decoder = forebay.BatchDecoder(T.evaluate(24), device=device)
    expected = decoder(files).images.cpu()
    files[1] = bytearray(files[1])
    files[2] = memoryview(files[2])
    files[3] = np.frombuffer(files[3], np.uint8)
    files[4] = torch.frombuffer(bytearray(files[4]), dtype=torch.uint8)
    files[5] = np.frombuffer(files[5], np.uint8).repeat(2)[::2]
    batch = decoder(files)
    assert batch.errors() == {} and torch.equal(batch.images.cpu(), expected)
    for wrong in ("a path", 5, np.zeros(9), np.zeros((2, 3), np.uint8), None):
        with pytest.raises(ValueError, match="file 0 is .*, but must be bytes"):
            decoder([wrong])


def test_augmentation_goes_on_from_call_to_call(packed: Path, device: Any):
    files = _files(packed)[:10]
    decoder = forebay.BatchDecoder(T.train(24), device=device, seed=3)
    first, second = decoder(files[:4]).images.cpu(), decoder(files[4:]).images.cpu()
    whole = decoder(files, drawn_for=range(10)).images.cpu()
    assert torch.equal(torch.cat([first, second]), whole)
    assert not torch.equal(decoder(files).images.cpu(), whole)


def test_boxes_are_cut(packed: Path, device: Any):
    files = _files(packed)[:5]
    size = 8
    decoder = forebay.BatchDecoder(T.RandomResizedCrop(size), device=device)
    sizes = [_core.read_size(np.frombuffer(file, np.uint8)) for file in files]
    boxes = [(width - size, i, size, size) for i, (width, _) in enumerate(sizes)]
    batch = decoder(files, boxes=boxes)
    assert batch.errors() == {}
    for image, file, (x, y, _, _) in zip(batch.images.cpu(), files, boxes, strict=True):
        cut = forebay.decode(file)[y : y + size, x : x + size]
        assert torch.equal(image, torch.from_numpy(cut).permute(2, 0, 1))
    outside = decoder(files, boxes=[(x + 1, y, w, h) for x, y, w, h in boxes])
    assert list(outside.errors()) == [0, 1, 2, 3, 4]
    message = outside.errors()[0]
    assert "8 x 8 pixels at" in message and "do not lie inside an image" in message
    for wrong in ([(0, 0, 1, 1)], [(0, 0, 1, -1)] * 5, [(0, 0, 1, 1.5)] * 5, "box"):
        with pytest.raises(ValueError, match="boxes: "):
            decoder(files, boxes=wrong)


def test_stored_files_are_as_good(packed: Path, device: Any):
    files = _files(packed)[:20]
    files[4] = files[4][: len(files[4]) - 30]
    files[7] = b"no image"
    png = io.BytesIO()
    Image.fromarray(forebay.decode(files[0])).save(png, "png")
    files[9] = png.getvalue()
    decoder = forebay.BatchDecoder(T.train(24), device=device, threads=2)
    expected = decoder(files, drawn_for=range(20))
    stored = decoder.store(files)
    assert [one.on_gpu for one in stored] == [
        device != "cpu" and i not in (4, 7, 9) for i in range(20)
    ]
    assert all(0 < one.nbytes <= 2 * len(file) for one, file in zip(stored, files, strict=True))
    for some in (stored, [*stored[:10], *files[10:]]):
        batch = decoder(some, drawn_for=range(20))
        assert batch.errors() == expected.errors()
        assert torch.equal(batch.images.cpu(), expected.images.cpu())
    if device != "cpu":
        with pytest.raises(ValueError, match="stored by a decoder of another device"):
            cpu = _core.BatchDecoder.open(
                _core.Transform(), _core.TensorOptions(), None, 1, _core.Damaged.REFUSE
            )
            numbers = np.zeros(1, np.uint64)
            cpu.begin(stored[:1], numbers, numbers, None, 0, 0, None, 0)
    del stored, some
    assert torch.equal(batch.images.cpu(), expected.images.cpu())
    assert decoder.store([]) == []


def test_bad_files_leave_the_others_alone(packed: Path, device: Any):
    files = _files(packed)[:8]
    decoder = forebay.BatchDecoder(T.evaluate(32), device=device)
    expected = decoder(files).images.cpu()
    files[2] = files[2][: len(files[2]) // 2]
    files[5] = b"no image"
    batch = decoder(files)
    errors = batch.errors()
    assert sorted(errors) == [2, 5] and "JPEG" in errors[2]
    assert errors == batch.errors()
    good = [i for i in range(8) if i not in errors]
    assert torch.equal(batch.images.cpu()[good], expected[good])
    assert not batch.images[[2, 5]].any()


def test_a_batch_goes_where_it_is_told(packed: Path, device: Any):
    files = _files(packed)[:3]
    decoder = forebay.BatchDecoder(T.evaluate(16), device=device, dtype="bfloat16")
    expected = decoder(files).images
    room = torch.full((5, 3, 16, 16), 7, dtype=torch.bfloat16, device=expected.device)
    batch = decoder(files, out=room[1:4])
    assert batch.errors() == {} and torch.equal(room[1:4], expected)
    assert bool((room[0] == 7).all()) and bool((room[4] == 7).all())
    leaf = room[:3].clone().requires_grad_()
    negative = torch._neg_view(room[:3])
    for wrong in (room, room[:3].float(), room[:3].permute(0, 1, 3, 2), leaf, negative, 5, "x"):
        with pytest.raises(ValueError, match="out (is|must be) "):
            decoder(files, out=wrong)
    assert decoder([]).images.shape == (0, 3, 16, 16) and decoder([]).errors() == {}


def test_many_calls_before_anyone_asks(packed: Path, device: Any):
    files = _files(packed)
    decoder = forebay.BatchDecoder(T.evaluate(16), device=device, threads=2)
    expected = decoder(files).images.cpu()
    batches = [decoder(files) for _ in range(40)]
    for batch in batches[::2]:
        assert batch.errors() == {}
    assert all(torch.equal(batch.images.cpu(), expected) for batch in batches)


_function: Any = abs


def test_a_refused_call_draws_nothing(packed: Path, device: Any):
    files = _files(packed)[:4]
    expected = forebay.BatchDecoder(T.train(16), device=device)(files).images.cpu()
    decoder = forebay.BatchDecoder(T.train(16), device=device)
    for wrong in ({"epoch": -1}, {"boxes": [1]}, {"out": 5}, {"drawn_for": [1]}):
        with pytest.raises(ValueError):
            decoder(files, **wrong)
    assert torch.equal(decoder(files).images.cpu(), expected)


def test_threads_may_ask_at_once(packed: Path, device: Any):
    files = [bytes([*file[:-60], 0x55, *file[-59:]]) for file in _files(packed)]
    decoder = forebay.BatchDecoder(T.train(16), device=device)
    batch = decoder(files)
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: batch.errors(), range(8)))
    assert all(answer == answers[0] for answer in answers)


def test_an_interrupted_call_writes_to_nobodys_memory(packed: Path, device: Any):
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    files = _files(packed) * 6
    decoder = forebay.BatchDecoder(T.RandomResizedCrop(128), device=device, threads=2)
    old = signal.signal(signal.SIGALRM, interrupt)
    try:
        for delay in (0.001, 0.01, 0.03):
            # The alarm may also come after the call: everything until it is off is inside.
            with contextlib.suppress(KeyboardInterrupt):
                signal.setitimer(signal.ITIMER_REAL, delay)
                decoder(files)
                signal.setitimer(signal.ITIMER_REAL, 0)
            others = [torch.full((1 << 16,), 7, dtype=torch.uint8) for _ in range(60)]
            time.sleep(0.2)
            assert all(bool((other == 7).all()) for other in others)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)


def test_another_process_makes_its_own(packed: Path):
    decoder = forebay.BatchDecoder(T.train(16), seed=7)
    copy = pickle.loads(pickle.dumps(decoder))
    files = _files(packed)[:3]
    assert torch.equal(copy(files).images, decoder(files).images)


def test_a_forked_child_makes_its_own(packed: Path):
    # From 3.12 on, Python warns of every fork of a process that has threads.
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", _FORKS, str(packed)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


# The parent's threads exist, and one batch is not over, when the child begins; both end normally.
_FORKS = """
import forebay, os, sys, torch
from forebay import transforms as T
dataset = forebay.Dataset(sys.argv[1])
files = [dataset.read(i) for i in range(len(dataset))]
decoder = forebay.BatchDecoder(T.evaluate(64), threads=3)
expected = decoder(files).images
batch = decoder(files)
child = os.fork()
if child == 0:
    try:
        batch.images
    except ValueError as error:
        assert "begun in the parent process" in str(error)
    else:
        assert False
    assert torch.equal(decoder(files).images, expected)
    sys.exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
assert torch.equal(batch.images, expected) and batch.errors() == {}
"""


def test_batches_may_be_given_up_and_asked_for_in_any_order(packed: Path, device: Any):
    files = _files(packed) * 3
    decoder = forebay.BatchDecoder(T.evaluate(96), device=device, threads=3)
    expected = decoder(files).images.cpu()
    for _ in range(20):
        decoder(files)  # nobody wants it: it is given up without a trace
    batches = [decoder(files) for _ in range(4)]
    for batch in reversed(batches):
        assert torch.equal(batch.images.cpu(), expected) and batch.errors() == {}


def test_options_that_make_no_sense(packed: Path):
    no_cuts: list[Any] = [[], T.Resize(8), T.Normalize()]
    for no_cut in no_cuts:
        with pytest.raises(ValueError, match="transform must cut images to one size"):
            forebay.BatchDecoder(no_cut)
    with pytest.raises(ValueError, match="abs is a function, which runs in Python"):
        forebay.BatchDecoder([*T.train(8), _function])
    with pytest.raises(ValueError, match="dtype is float32, which needs a transform with"):
        forebay.BatchDecoder(T.RandomResizedCrop(8), dtype="float32")
    decoder = forebay.BatchDecoder(T.train(8))
    for wrong in ([1], [1, -1], [1, 2**48], [1, 2.5], 5, ["1", "2"], [[1, 2]], np.full(2, -3.5)):
        with pytest.raises(ValueError, match="drawn_for"):
            decoder(_files(packed)[:2], drawn_for=wrong)
    strange: tuple[Any, ...] = (0, 1.5, float("nan"), "2", True, 2**32)
    for threads in strange:
        with pytest.raises(ValueError, match="threads is"):
            forebay.BatchDecoder(T.train(8), threads=threads)
        with pytest.raises(ValueError, match="threads is"):
            forebay.decode(_files(packed)[:2], threads=threads)
    with pytest.raises(ValueError, match="scale"):
        forebay.BatchDecoder(T.RandomResizedCrop(8, scale=(2, 1)))
    noise: Any = [T.RandomResizedCrop(8), T.RandomErasing(p=1.0, value="random")]
    with pytest.raises(ValueError, match="noise needs"):
        forebay.BatchDecoder(noise)
    with pytest.raises(ValueError, match="epoch is -1"):
        decoder(_files(packed)[:2], epoch=-1)


def test_whole_images(packed: Path, device: Any):
    files = _files(packed)
    png = io.BytesIO()
    Image.fromarray(forebay.decode(files[0])).save(png, "png")
    files[3] = png.getvalue()
    for image, file in zip(forebay.decode(files, device=device, threads=2), files, strict=True):
        assert np.array_equal(torch.as_tensor(image).cpu().numpy(), forebay.decode(file))
    one = torch.as_tensor(forebay.decode(files[1], device=device))
    assert np.array_equal(one.cpu().numpy(), forebay.decode(files[1]))
    files[4] = files[4][: len(files[4]) // 2]
    with pytest.raises(forebay.DataError, match="decode: image 4: "):
        forebay.decode(files, device=device)
    with pytest.raises(forebay.DataError, match="decode: image 1: "):
        forebay.decode([files[0], b"no image"], device=device)
