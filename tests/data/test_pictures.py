import hashlib
import io
import pickle
import warnings

import numpy as np
import pytest
from picture_material import Case, colors, encode, exif, good_cases, picture, smooth
from PIL import Image

from normwise.core.errors import InputError, WorkError
from normwise.data.picture_decoding import PictureError
from normwise.data.pictures import Picture

PNG = encode(picture(), "PNG")


def test_a_file_and_its_bytes_are_the_same_picture(tmp_path):
    path = tmp_path / "a.png"
    path.write_bytes(PNG)
    of_file, of_bytes = Picture.of_file(path), Picture.of_bytes(PNG, name="row 3")
    assert of_file == of_bytes
    assert len({of_file, of_bytes}) == 1
    assert of_file.digest == hashlib.sha256(PNG).hexdigest()
    assert (of_file.name, of_bytes.name, Picture.of_file(path, name="cat").name) == (str(path), "row 3", "cat")
    assert of_file.encoded() == of_bytes.encoded() == PNG
    assert of_file.data is None
    assert np.array_equal(np.asarray(of_file.open()), colors())
    assert "data" not in repr(of_bytes)


def test_another_background_is_another_picture():
    clear = encode(Image.new("RGBA", (2, 2), (9, 9, 9, 0)), "PNG")
    white, red = Picture.of_bytes(clear, name="a"), Picture.of_bytes(clear, name="a", background=(255, 0, 0))
    assert white != red
    assert white.open().getpixel((0, 0)) == (255, 255, 255)
    assert red.open().getpixel((0, 0)) == (255, 0, 0)


def test_bytes_are_kept_as_they_were():
    buffer = bytearray(PNG)
    kept = Picture.of_bytes(buffer, name="a")
    buffer[:] = b"other"
    assert kept.encoded() == PNG
    assert pickle.loads(pickle.dumps(kept)) == kept


def test_what_is_not_there_or_empty_or_changed_is_told(tmp_path):
    path = tmp_path / "a.png"
    with pytest.raises(InputError, match="a.png does not exist: check the path"):
        Picture.of_file(path)
    with pytest.raises(InputError, match="is a folder: give a file"):
        Picture.of_file(tmp_path)
    path.touch()
    for make in (lambda: Picture.of_file(path, name="cat"), lambda: Picture.of_bytes(b"", name="cat")):
        with pytest.raises(PictureError, match=r"picture cat is empty \(0 bytes\): leave it out"):
            make()
    path.write_bytes(PNG)
    found = Picture.of_file(path)
    path.write_bytes(encode(picture(colors(seed=5)), "PNG"))
    with pytest.raises(WorkError, match="a.png: the file was changed while it was in use: restore it, or start again"):
        found.open()
    path.unlink()
    with pytest.raises(InputError, match="a.png does not exist"):
        found.open()


def test_the_limit_and_the_name_reach_the_decoder():
    with pytest.raises(PictureError, match="picture row 3 declares 7 x 5 = 35 pixels, more than 34"):
        Picture.of_bytes(PNG, name="row 3").open(max_pixels=34)


def opened(case):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Pillow's own, of broken EXIF blocks
        return Image.open(io.BytesIO(case.data))


GOOD = good_cases((3, 77, 200))


@pytest.mark.parametrize(
    "name", [name for name in GOOD if not name.startswith(("small-frame", "deep-inverted", "two-bit", "deep-color-key"))]
)
def test_an_open_picture_is_what_its_file_is(name):
    case = GOOD[name]
    found = np.asarray(Picture.of_image(opened(case), name=name, background=(3, 77, 200)).open()).astype(int)
    assert found.shape == case.pixels.shape
    assert np.abs(found - case.pixels).max() <= case.within


def test_an_open_picture_is_turned_once():
    for kind in ("PNG", "TIFF"):
        data = encode(picture(smooth()), kind, exif=exif(6))
        found = Picture.of_image(opened(Case(data)), name="a")
        assert np.array_equal(np.asarray(found.open()), np.rot90(smooth(), k=-1))


@pytest.mark.parametrize(
    "mode", ["1", "L", "LA", "P", "PA", "RGB", "RGBA", "RGBX", "La", "RGBa", "CMYK", "YCbCr", "LAB", "HSV", "I", "I;16"]
)
def test_every_mode_of_an_open_picture_is_shown(mode):
    image = Image.new(mode, (3, 2))
    assert Picture.of_image(image, name="a").open().size == (3, 2)


def test_an_open_picture_without_a_range_is_refused():
    with pytest.raises(PictureError, match="picture a holds floating-point values"):
        Picture.of_image(Image.new("F", (3, 2), 0.5), name="a").open()


def test_an_open_picture_that_cannot_be_read_is_told():
    cut = opened(Case(encode(picture(smooth(size=(96, 80))), "JPEG")[:-300]))
    with pytest.raises(PictureError, match="picture a is cut off .*: copy or download it again"):
        Picture.of_image(cut, name="a")


def test_an_open_animation_is_refused_and_one_frame_of_it_taken():
    frames = [picture(colors(seed=seed)) for seed in range(3)]
    film = opened(Case(encode(frames[0], "PNG", save_all=True, append_images=frames[1:])))
    with pytest.raises(PictureError, match=r"picture a is animated or has pages \(3 frames\): take one frame out of it first"):
        Picture.of_image(film, name="a")
    film.seek(1)
    assert np.array_equal(np.asarray(Picture.of_image(film.copy(), name="a").open()), colors(seed=1))


def test_an_open_picture_is_left_as_it_is():
    image = opened(GOOD["color-key.png"])
    before = dict(image.info)
    Picture.of_image(image, name="a")
    assert (image.mode, image.info) == ("RGB", before)
