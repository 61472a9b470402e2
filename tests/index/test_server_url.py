import pytest

from normwise.core.errors import InputError
from normwise.index.server_url import parse_server_url

PG = ("postgresql", "postgres")


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://me:tiger%40x@host:5432/db", "postgresql://me@host:5432/db"),
        ("postgres://:tiger@host/db", "postgres://host/db"),
        ("postgresql://me@a:1,b:2/db?target_session_attrs=any", "postgresql://me@a:1,b:2/db?target_session_attrs=any"),
        ("postgresql://me@[::1]:5432/db", "postgresql://me@[::1]:5432/db"),
        ("postgresql://host/db?user=me&password=tiger&sslpassword=lily", "postgresql://host/db?user=me"),
        ("postgresql://me@/db?host=/var/run/pg", "postgresql://me@/db?host=/var/run/pg"),
        ("postgresql:///db", "postgresql:///db"),
    ],
)
def test_what_is_shown_has_no_password(url, shown):
    parsed = parse_server_url(url, schemes=PG)
    assert parsed.shown == shown
    assert parsed.whole == url
    assert "tiger" not in repr(parsed)
    assert "lily" not in repr(parsed)


def test_masks_every_form_of_a_password():
    parsed = parse_server_url("postgresql://me:ti%40ger@host/db?sslpassword=lily", schemes=PG)
    assert parsed.mask("ti%40ger, ti@ger and lily at postgresql://other:word@host") == "***, *** and *** at postgresql://other:***@host"


def test_a_short_password_is_masked_as_a_word_and_spoils_no_other():
    assert parse_server_url("postgresql://me:a@host/db", schemes=PG).mask("a banana: a") == "*** banana: ***"


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:ti@ger@host/db",
        "postgresql://me:ti/ger@host/db",
        "postgresql://me:ti#ger@host/db",
        "postgresql://me:ti?ger@host/db",
        "postgresql://host:tiger/db",
        "postgresql://me:ti ger@host/db",
    ],
)
def test_an_address_that_can_be_read_in_two_ways_is_refused_and_not_shown(url):
    with pytest.raises(InputError, match="percent-encode @ : / ?") as caught:
        parse_server_url(url, schemes=PG)
    assert "ger" not in str(caught.value).replace("encoded", "")


@pytest.mark.parametrize(
    ("url", "came"), [("mysql://me:tiger@host/db", "mysql://..."), ("host=x password=tiger", "no such scheme"), ("", "no such")]
)
def test_other_schemes_are_refused(url, came):
    with pytest.raises(InputError, match=f"url has {came}.*expected postgresql://user:password@host") as caught:
        parse_server_url(url, schemes=PG)
    assert "tiger" not in str(caught.value)
