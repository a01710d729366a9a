"""--storage-option NAME=VALUE of the commands, on real servers; training from them."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from conftest import run_forebay
from places import on_web
from servers.nginx import Nginx
from servers.s3 import S3


def run(*words: object, env: dict[str, str] | None = None, code: int = 0) -> str:
    """Runs a command, which must end with this exit code, and returns all of its output."""
    done = run_forebay(*words, env=env, code=code)
    return done.stdout + done.stderr


@pytest.fixture
def bare(s3: S3, tmp_path: Path) -> dict[str, str]:
    """Returns an environment that leads to the profiles and neither names one nor a server."""
    env = s3.write_profiles(tmp_path)
    return {name: env[name] for name in env if name not in ("AWS_ENDPOINT_URL", "AWS_REGION")}


def reach(s3: S3, profile: str, option: str = "--storage-option") -> list[str]:
    """Returns the options that lead to the store with the keys of a profile."""
    values = [
        f"profile={profile}",
        f"endpoint_url={s3.endpoint}",
        "client_kwargs.region_name=default",
    ]
    return [word for value in values for word in (option, value)]


def test_every_command_takes_them(
    s3: S3, bare: dict[str, str], packed: Path, folder: Path, tmp_path: Path
) -> None:
    bucket = s3.make_bucket()
    s3.upload(folder, bucket, "images/")
    images, place = f"s3://{bucket}/images", f"s3://{bucket}/set"
    options = reach(s3, "owner")
    run("pack", images, place, "--chunk-bytes", "100000", *options, env=bare)
    listed = run("ls", place, *options, env=bare)
    assert listed == run("ls", packed)
    assert listed == run("ls", f"S3://{bucket}/set", *options, env=bare)
    # Options may stand before the place, too, and take one value each.
    assert listed == run("ls", *options, place, env=bare)
    run("index", images, *options, env=bare)
    run("verify", place, *options, env=bare)
    assert "70 samples" in run("inspect", place, *options, env=bare)
    run("export", place, tmp_path / "back", *options, env=bare)
    assert len(list((tmp_path / "back").rglob("*.jpg"))) == 70
    run("show", place, "--out", tmp_path / "page.html", "--samples", 1, *options, env=bare)
    assert "data:image" in (tmp_path / "page.html").read_text()
    assert "70 images" in run("bench", images, "--size", 32, "--seconds", 1, *options, env=bare)


def test_source_and_target_may_have_different_ones(
    s3: S3, bare: dict[str, str], packed: Path, folder: Path
) -> None:
    mine, theirs = s3.make_bucket(), s3.make_bucket(s3.stranger_key)
    s3.upload(folder, mine, "images/")
    both = [*reach(s3, "owner"), *reach(s3, "stranger", "--target-storage-option")]
    command = ["pack", f"s3://{mine}/images", f"s3://{theirs}/set", "--chunk-bytes", "100000"]
    run(*command, *both, env=bare)
    stranger = reach(s3, "stranger")
    assert run("ls", f"s3://{theirs}/set", *stranger, env=bare) == run("ls", packed)
    back = [*stranger, *reach(s3, "owner", "--target-storage-option")]
    run("export", f"s3://{theirs}/set", f"s3://{mine}/back", *back, env=bare)
    assert "403" in run(
        "export", f"s3://{theirs}/set", f"s3://{mine}/x", *stranger, env=bare, code=1
    )


def test_certificates_of_a_web_server(nginx: Nginx, packed: Path) -> None:
    url = f"{nginx.tls_url}/{on_web(nginx, packed)}"
    listed = run("ls", url, "--storage-option", f"verify={nginx.ca_file}")
    assert listed == run("ls", packed)
    assert "certificate" in run("ls", url, code=1)


@pytest.mark.parametrize("name", ["key", "secret", "token", "AWS_SECRET_ACCESS_KEY"])
@pytest.mark.parametrize(
    ("command", "option"),
    [("cp", "--storage-option"), ("cp", "--target-storage-option"), ("show", "--storage-option")],
)
def test_secrets_are_refused(name: str, command: str, option: str, tmp_path: Path) -> None:
    said = run(command, tmp_path, "s3://b/x", option, f"{name}=hidden-value", code=2)
    assert "profile=NAME" in said and "hidden-value" not in said


@pytest.mark.parametrize(
    ("value", "said"), [("profle=x", "there is no storage option profle"), ("x", "not NAME=VALUE")]
)
def test_wrong_options_are_wrong_usage(value: str, said: str) -> None:
    for command in ("ls", "train", "verify", "show", "bench"):
        assert said in run(command, "set", "--storage-option", value, code=2)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a packed dataset of images to train on."""
    root = tmp_path_factory.mktemp("small")
    random = np.random.default_rng(3)
    for i in range(96):
        image = root / "images" / f"class{i % 3}" / f"{i:03}.jpg"
        image.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(random.integers(0, 256, (16, 16, 3), dtype=np.uint8)).save(image)
    run("pack", root / "images", root / "set", "--chunk-bytes", "65536")
    return root / "set"


def test_training_from_servers_gives_the_weights_of_a_disk(
    s3: S3, nginx: Nginx, bare: dict[str, str], small: Path, tmp_path: Path
) -> None:
    bucket = s3.make_bucket()
    s3.upload(small, bucket, "set/")
    weights: dict[object, bytes] = {}
    for place in (small, f"{nginx.url}/{on_web(nginx, small)}", f"s3://{bucket}/set"):
        out = tmp_path / f"out{len(weights)}"
        options = reach(s3, "owner") if str(place).startswith("s3:") else []
        command = ["train", place, "--val", place, "--width", "2", "--batch", "16", "--epochs", "2"]
        said = run(*command, "--threads", "2", "--out", out, *options, env=bare)
        assert "loss" in said
        weights[place] = (out / "model.safetensors").read_bytes()
    assert len(set(weights.values())) == 1
