"""One resolver for all, and directories that are ours alone."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.daemon import places
from interlock.daemon.places import NotPrivate, PathTooLong

from .foreign import foreign_dir, mode_of


def test_the_state_directory_is_in_the_data_home() -> None:
    assert places.state_dir({"XDG_DATA_HOME": "/data", "HOME": "/h"}) == Path("/data/interlock")


def test_a_variable_names_another_state_directory() -> None:
    assert places.state_dir({"INTERLOCK_STATE_DIR": "/s/../t", "XDG_DATA_HOME": "/data"}) == Path("/t")


@pytest.mark.parametrize("ignored", ["", "relative/place"])
def test_a_home_of_data_that_is_not_absolute_is_ignored(ignored: str) -> None:
    assert places.state_dir({"XDG_DATA_HOME": ignored, "HOME": "/h"}) == Path("/h/.local/share/interlock")


def test_without_any_variable_the_user_database_says_where_home_is() -> None:
    assert places.state_dir({}).parts[-3:] == (".local", "share", "interlock")
    assert places.home({}).is_absolute()


def test_a_tilde_is_home_also_where_no_shell_has_seen_it() -> None:
    assert places.absolute("~/il", {"HOME": "/h"}) == Path("/h/il")
    assert places.absolute("~", {"HOME": "/h"}) == Path("/h")
    assert places.absolute("/a/~b", {"HOME": "/h"}) == Path("/a/~b")


def test_configuration_and_log_have_their_own_homes() -> None:
    env = {"XDG_CONFIG_HOME": "/c", "XDG_STATE_HOME": "/s"}
    assert places.config_file(env) == Path("/c/interlock/config.toml")
    assert places.log_file(env) == Path("/s/interlock/interlockd.log")


def test_the_socket_is_named_by_the_real_path_of_the_state_directory(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    env = {"XDG_RUNTIME_DIR": str(tmp_path)}
    digest = hashlib.sha256(os.fsencode(os.path.realpath(tmp_path / "real"))).hexdigest()[:8]
    assert places.socket_path(tmp_path / "real", env) == tmp_path / "interlock" / f"{digest}.sock"
    assert places.socket_path(tmp_path / "link", env) == places.socket_path(tmp_path / "real", env)


def test_looking_for_the_socket_makes_nothing(tmp_path: Path) -> None:
    places.socket_path(tmp_path / "state", {"XDG_RUNTIME_DIR": str(tmp_path / "run")})
    assert list(tmp_path.iterdir()) == []


def test_a_runtime_directory_that_is_yet_to_be_made_counts(tmp_path: Path) -> None:
    assert places.socket_dir({"XDG_RUNTIME_DIR": str(tmp_path / "a/b")}) == tmp_path / "a/b/interlock"


def test_a_runtime_directory_of_somebody_else_is_passed_over(tmp_path: Path) -> None:
    fallback = Path(f"/tmp/interlock-{os.geteuid()}")
    assert places.socket_dir({"XDG_RUNTIME_DIR": str(foreign_dir(tmp_path))}) == fallback


def test_without_a_usable_runtime_directory_the_fallback_is_per_user(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    fallback = Path(f"/tmp/interlock-{os.geteuid()}")
    for useless in ("", "relative", str(file), str(file / "below")):
        assert places.socket_dir({"XDG_RUNTIME_DIR": useless}) == fallback
    assert places.is_own_socket_dir(fallback)


def test_a_socket_path_of_107_bytes_is_accepted_and_of_108_refused_with_all_that_helps() -> None:
    places.check_socket_length(Path("/" + "x" * 106))
    path = Path("/" + "x" * 107)
    with pytest.raises(PathTooLong) as refused:
        places.check_socket_length(path)
    error = refused.value
    assert (error.path, error.length, error.limit, error.exit_code) == (path, 108, 107, 2)
    for part in (str(path), "108", "107", "--socket"):
        assert part in str(error)


def test_a_default_socket_that_is_too_long_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PathTooLong):
        places.socket_path(tmp_path, {"XDG_RUNTIME_DIR": str(tmp_path / ("x" * 100))})


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0/"), min_size=1, max_size=120))
def test_the_length_is_of_bytes_not_of_characters(name: str) -> None:
    path = Path("/") / name
    try:
        places.check_socket_length(path)
    except PathTooLong:
        assert len(os.fsencode(path)) > 107
    else:
        assert len(os.fsencode(path)) <= 107


def test_a_private_directory_is_made_with_its_parents(tmp_path: Path) -> None:
    assert places.make_private_dir(tmp_path / "a/b") is False
    assert [mode_of(tmp_path / "a"), mode_of(tmp_path / "a/b")] == [0o700, 0o700]
    places.check_private_dir(tmp_path / "a/b")


def test_a_directory_of_ours_that_is_open_is_narrowed(tmp_path: Path) -> None:
    folder = tmp_path / "wide"
    folder.mkdir()
    folder.chmod(0o755)
    with pytest.raises(NotPrivate, match="open to others"):
        places.check_private_dir(folder)
    assert places.make_private_dir(folder) is True
    assert mode_of(folder) == 0o700
    assert places.make_private_dir(folder) is False


def test_a_link_is_no_private_directory_and_is_left_alone(tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir()
    real.chmod(0o755)
    link = tmp_path / "link"
    link.symlink_to(real)
    for ask in (places.check_private_dir, places.make_private_dir):
        with pytest.raises(NotPrivate, match="symbolic link"):
            ask(link)
    assert mode_of(real) == 0o755


def test_a_file_is_no_private_directory(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    for ask in (places.check_private_dir, places.make_private_dir):
        with pytest.raises(NotPrivate, match="no directory"):
            ask(file)
    with pytest.raises(NotPrivate, match="Not a directory"):
        places.make_private_dir(file / "below")


def test_a_directory_of_somebody_else_is_refused_and_left_alone(tmp_path: Path) -> None:
    folder = foreign_dir(tmp_path)
    before = mode_of(folder)
    for ask in (places.check_private_dir, places.make_private_dir):
        with pytest.raises(NotPrivate, match="belongs to user"):
            ask(folder)
    assert mode_of(folder) == before


def test_a_missing_directory_is_not_private(tmp_path: Path) -> None:
    with pytest.raises(NotPrivate, match="No such file"):
        places.check_private_dir(tmp_path / "nothing")


def test_looking_for_places_costs_no_more_than_the_standard_library_needs() -> None:
    script = (
        "import sys, interlock.daemon.places; print({'asyncio', 'msgspec', 'argparse', 'logging'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
