from pathlib import Path

from penstock.formats import certificates
from tests.support.tls_front import certificates as issued


def test_of_a_file_that_also_holds_a_key_only_the_certificates_are_taken(tmp_path: Path) -> None:
    made = issued(tmp_path, "localhost")
    both = tmp_path / "both.pem"
    both.write_text(made.key.read_text() + made.server.read_text() + made.authority.read_text(), encoding="ascii")
    found = certificates(str(both))
    assert len(found) == 2
    assert "PRIVATE" not in "".join(found)
