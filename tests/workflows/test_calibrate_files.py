"""Where a calibration goes: a name that says what the file is, refused before any work."""

import re

import pytest

from normwise.core.errors import InputError
from normwise.workflows import calibrate as workflow
from normwise.workflows.calibrate_files import choose_place


@pytest.mark.parametrize("name", ["foo.txt", "foo", ".json", "calibration.json.bak", "calibration.html"])
def test_a_calibration_is_kept_under_a_name_that_ends_in_json(tmp_path, name):
    wanted = re.escape(f"{tmp_path / name} is to hold the calibration, which is JSON: give --out a name that ends in .json")
    with pytest.raises(InputError, match=wanted):
        choose_place(None, out=tmp_path / name, save=True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["foo.json", "foo.JSON", "my.model.json"])
def test_any_name_that_ends_in_json_will_do(tmp_path, name):
    assert choose_place(None, out=tmp_path / name, save=True).file == tmp_path / name


def test_the_name_is_refused_before_data_are_read(tmp_path, monkeypatch):
    monkeypatch.setattr(workflow, "load_asked", lambda *_, **__: pytest.fail("data were read"))
    with pytest.raises(InputError, match=r"give --out a name that ends in \.json"):
        workflow.calibrate_vectors("Q.npy", "D.npy", "nowhere", similarity="dot", out=tmp_path / "foo.txt")
    with pytest.raises(InputError, match=r"give --out a name that ends in \.json"):
        workflow.calibrate("some/model", "nowhere", out=tmp_path / "foo.txt")
