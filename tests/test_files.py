import subprocess
import sys
from pathlib import Path

import pytest

from truthful.files import canonical_json, exclusive, publish_directory, sha256, write_atomically


def test_the_hash_of_a_record_does_not_depend_on_the_order_of_its_keys() -> None:
    assert sha256({"a": 1, "b": [1.5, "ü"]}) == sha256({"b": [1.5, "ü"], "a": 1})
    assert sha256({"a": 1}) != sha256({"a": 2})


def test_nan_has_no_canonical_form() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical_json({"a": float("nan")})


def test_a_failed_write_leaves_the_old_file_and_no_debris(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    write_atomically(path, "old")
    with pytest.raises(UnicodeEncodeError):
        write_atomically(path, "new \ud800")
    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["record.json"]


def test_a_published_directory_never_replaces_another(tmp_path: Path) -> None:
    built, final = tmp_path / ".built", tmp_path / "final"
    for directory in (built, final):
        directory.mkdir()
        (directory / "file").write_text(directory.name)
    with pytest.raises(OSError, match="not empty"):
        publish_directory(built, final)
    assert (final / "file").read_text() == "final"


def test_a_lock_is_held_by_one_and_freed_at_the_end(tmp_path: Path) -> None:
    with exclusive(tmp_path / "lock") as first, exclusive(tmp_path / "lock") as second:
        assert (first, second) == (True, False)
    with exclusive(tmp_path / "lock") as again:
        assert again


def test_a_killed_holder_frees_its_lock(tmp_path: Path) -> None:
    program = (
        "import sys, time, pathlib, truthful.files as f\n"
        "with f.exclusive(pathlib.Path(sys.argv[1])) as free:\n    print(free, flush=True); time.sleep(60)"
    )
    path = tmp_path / "lock"
    with subprocess.Popen(
        [sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "True\n"
        with exclusive(path) as free:
            assert not free
        holder.kill()
    with exclusive(path) as free:
        assert free
